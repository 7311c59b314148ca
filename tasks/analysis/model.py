"""What a comparison is made of: machines, summaries of cells, ratios with a verdict."""

from dataclasses import dataclass
from enum import StrEnum

from workloads.harness.case import Case, Cell
from workloads.harness.intervals import Interval
from workloads.harness.record import Verdict


class Outcome(StrEnum):
    """The verdict of a ratio: its interval lies above 1, below 1, or spans it (or there is no interval)."""

    FASTER = "faster"
    SLOWER = "slower"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a piece of hardware that a comparison needs.

    Attributes:
        usd_per_hour: price of the whole machine; None where nobody has stated one.
        price_note: where the price comes from, such as "stated assumption" or "on-demand, 2026-07-20".
        devices: accelerators in it; 0 for a CPU machine, whose devices are its threads.
        peak_flops: peak rate in FLOP/s by precision, where known; the plausibility gate uses it.
        peak_bytes_per_s: peak memory bandwidth, where known.
    """

    name: str
    usd_per_hour: float | None
    price_note: str = ""
    devices: int = 0
    peak_flops: tuple[tuple[str, float], ...] = ()
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval; the bounds are None where repeats are too few to give one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, interval: Interval) -> "Estimate":
        """Take over an interval of the harness."""
        return cls(interval.value, interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio against the baseline, above 1 is better; `why` says what an undecided one lacks."""

    estimate: Estimate
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The repeats of one cell taken together.

    Attributes:
        verdict: `ok` when at least one repeat is; else the verdict of the first repeat that is not.
        reasons: every reason that a repeat or the plausibility gate gave, in order, without repetition.
        repeats, ok_repeats: how many were measured, how many may enter a ratio.
        compute_s, end_to_end_s: seconds per step over the ok repeats (geometric mean), None without any.
        units_per_s: throughput, work of a step over its compute time.
        cold_s: seconds from process start to the end of the first call, median over the ok repeats.
        threads: CPU threads that were used.
        device: `cpu` or `cuda`.
        units: work of one step in the workload's own terms, such as 32 images over all devices.
    """

    cell: Cell
    verdict: Verdict
    reasons: tuple[str, ...]
    repeats: int
    ok_repeats: int
    compute_s: Estimate | None = None
    end_to_end_s: Estimate | None = None
    units_per_s: float | None = None
    unit: str = ""
    flops_per_s: float | None = None
    cold_s: float | None = None
    usd_per_million_units: Estimate | None = None
    threads: int | None = None
    device: str = "cpu"
    units: float | None = None


@dataclass(frozen=True, slots=True)
class Pairing:
    """One cell against the baseline's cell of the same case.

    Attributes:
        compute, end_to_end: speedups (baseline time / time), None where a side has no ok record. Where a step
            is more work on one side (weak scaling: a batch per device), times are taken per unit of work.
        efficiency: compute speedup / (devices / baseline devices); None where the devices are of two kinds or
            models, or where there are no more of them than in the baseline.
        efficiency_band: its band's name, by the lower bound.
        scaling: `strong` (the same step on more devices) or `weak` (the same step per device); empty where
            there is no efficiency.
        serial_fraction: Karp-Flatt's serial fraction of that speedup, from 0 to 1.
        cost: cost efficiency, (baseline price x time) / (price x time), above 1 is cheaper than the baseline.
        confounds: differences of stack or host beside the one that is compared, in words.
        refused: why there is no ratio, in words; empty where there is one.
    """

    case: Case
    hardware: str
    baseline: str
    compute: Ratio | None = None
    end_to_end: Ratio | None = None
    efficiency: Estimate | None = None
    efficiency_band: str = ""
    cost: Ratio | None = None
    confounds: tuple[str, ...] = ()
    refused: str = ""
    scaling: str = ""
    serial_fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """A machine over all cases that every compared machine has ok: time and money of one pass through them.

    Attributes:
        cases: how many cases are summed, the same ones for every machine.
        seconds: sum of the compute times per step.
        usd: what those seconds cost; None without a price.
        geomean_speedup: geometric mean of the speedups against the baseline, for orientation; None for the
            baseline itself.
        speedup: the baseline's seconds / these seconds; None for the baseline itself.
    """

    hardware: str
    cases: int
    seconds: float
    usd: float | None
    geomean_speedup: Estimate | None = None
    speedup: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is said of a run.

    Attributes:
        answer: sentences, the most useful first: what is fastest, what is cheapest, what is undecided.
        unpaired: cells that no baseline cell matches, with what to run to pair them.
    """

    baseline: str
    machines: tuple[Machine, ...]
    summaries: tuple[Summary, ...]
    pairings: tuple[Pairing, ...]
    totals: tuple[Total, ...]
    answer: tuple[str, ...]
    unpaired: tuple[str, ...] = ()
