"""What a comparison is made of: machines, summaries of cells, pairings with the baseline, totals."""

from dataclasses import dataclass

from tasks.results.values import Estimate, Ratio
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.record import LAUNCH_BOUND, Grade, Verdict
from workloads.harness.roofline.roofline import Bound


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a piece of hardware that a comparison needs.

    Attributes:
        usd_per_hour: price of the whole machine; None where nobody has stated one.
        price_note: where the price comes from, such as "stated assumption" or "on-demand, 2026-07-20".
        devices: accelerators in it; 0 for a CPU machine, whose devices are its threads.
        peak_flops: peak rate in FLOP/s by precision, where known; the plausibility gate uses it.
        peak_bytes_per_s: peak memory bandwidth, where known.
        reach: share of its peak rates that large matrix products on such a card reach at least, where known.
        price_flags: what is doubtful about the price, a sentence each; empty where nothing is.
        spot_usd_per_hour: price of the same machine as spot capacity, where known.
        instance_type, purchase: what it must say that it is, and how bought; None where nothing was planned.
        shape: of which hardware it is one box of several; None where it is none.
        idle_s: how long it is paid for after its last job, until somebody takes it away.
        gpu: the model that its hardware file names; None where it names none.
        gpus_called: what drivers call each model that is known; empty where no model is named.
    """

    name: str
    usd_per_hour: float | None
    price_note: str = ""
    devices: int = 0
    peak_flops: tuple[tuple[str, float], ...] = ()
    peak_bytes_per_s: float | None = None
    price_flags: tuple[str, ...] = ()
    spot_usd_per_hour: float | None = None
    instance_type: str | None = None
    purchase: str | None = None
    shape: str | None = None
    idle_s: float = 0.0
    gpu: str | None = None
    gpus_called: tuple[tuple[str, str], ...] = ()
    reach: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The repeats of one cell taken together.

    Attributes:
        verdict: the gravest of the repeats that count; else the verdict of the first repeat.
        reasons: every reason that a repeat or the plausibility gate gave, in order, without repetition.
        why: the reasons of the repeats that have this verdict, the gravest of each first.
        busy: whether others used the machine during a repeat that counts; where none does, during any.
        repeats, ok_repeats: how many were measured, how many count: sound or wide.
        compute_s, end_to_end_s: seconds per step over those that count (geometric mean), None without any.
        median_s: seconds of a typical step; less than `compute_s` where some steps are slow.
        units_per_s: throughput, total work over total time.
        cold_s: seconds from process start to the end of the first call, median over those that count.
        threads: CPU threads that were used.
        device: `cpu` or `cuda`.
        units: work of one step in the workload's own terms, such as 32 images over all devices.
        whole: whether a step is a whole job, timed once a repeat.
        bound: what bounds it, by the ceilings that the same run measured; None without any usable repeat.
        busy_share: the part of a step in which the device computes; None where no repeat knows it.
        sustained_share: speed after a soak over that of the first second; None where nothing was soaked.
    """

    cell: Cell
    verdict: Verdict
    reasons: tuple[str, ...]
    repeats: int
    ok_repeats: int
    compute_s: Estimate | None = None
    end_to_end_s: Estimate | None = None
    median_s: float | None = None
    units_per_s: float | None = None
    unit: str = ""
    flops_per_s: float | None = None
    cold_s: float | None = None
    usd_per_million_units: Estimate | None = None
    threads: int | None = None
    device: str = "cpu"
    units: float | None = None
    whole: bool = False
    bound: Bound | None = None
    busy_share: Estimate | None = None
    sustained_share: Estimate | None = None
    why: tuple[str, ...] = ()
    busy: bool = False

    @property
    def launch_bound(self) -> bool:
        """Return True if the device waits for its host for a tenth of a step: see `Record.launch_bound`."""
        return self.busy_share is not None and LAUNCH_BOUND * self.busy_share.value < 1

    @property
    def grade(self) -> Grade:
        """The grade of the cell: `refused` where no repeat counts."""
        return self.verdict.grade if self.ok_repeats else Grade.REFUSED

    @property
    def complete(self) -> bool:
        """Return True if there is a repeat and every one counts."""
        return 0 < self.repeats <= self.ok_repeats


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
        serial_fraction: of that speedup: Karp and Flatt's for strong scaling, Gustafson's for weak.
        payback_calls: calls after which a faster machine has made up for its longer cold start; 0 where that
            is no longer; None where it is not shown to be faster.
        cost: cost efficiency, (baseline price x time) / (price x time), above 1 is cheaper than the baseline.
        confounds: differences of stack or host beside the one that is compared, in words.
        refused: why there is no ratio, in words; empty where there is one.
        grade: of the ratios: `wide` where a side is.
        provisional: whether a side was busy, or its CPU's own speed came and went.
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
    payback_calls: float | None = None
    grade: Grade = Grade.SOUND
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """A machine over all cases that count on every compared machine: time and money of one pass.

    Attributes:
        cases: how many cases are summed, the same ones for every machine.
        seconds: sum of the compute times per step.
        usd: what those seconds cost; None without a price.
        geomean_speedup: geometric mean of the speedups against the baseline, for orientation; None for the
            baseline itself.
        speedup: the baseline's seconds / these seconds; None for the baseline itself.
        measured: how many cases were measured in all.
        provisional: why a quiet machine may give another total, in words; empty where none may.
    """

    hardware: str
    cases: int
    seconds: float
    usd: float | None
    geomean_speedup: Estimate | None = None
    speedup: Estimate | None = None
    measured: int = 0
    provisional: str = ""


@dataclass(frozen=True, slots=True)
class ScalingLevel:
    """One number of processes in a family of cases that differ only in it.

    Attributes:
        processes: how many processes computed together, each on a device of its own.
        grouped: whether they were a group; one that was not had nothing to exchange: the base without DDP.
        reasons: why it counts only in part, or not at all.
        step_s: seconds per step (or whole job) of the slowest process, over the ok repeats; None without any.
        units: work of a step over all processes, in terms of `unit`; `units_per_s` is that over the time.
        over_base: speedup of throughput over the family's base; None for the base itself.
        over_group_of_one: speedup of throughput over one process in a group of its own, with DDP.
        efficiency, band: speedup over the base / how many times its devices, and its name.
        impossible: why the efficiency can't be true, in words; it is shown and not used.
        refused: why there is no efficiency, in words.
        serial_fraction: Karp and Flatt's for strong, Gustafson's for weak scaling.
        communication_share, spread: as in `Group`, median over the ok repeats.
        memory_bytes: peak memory by rank, the most of any repeat; None where it is not known.
    """

    cell: Cell
    processes: int
    grouped: bool
    verdict: Verdict
    reasons: tuple[str, ...]
    repeats: int
    ok_repeats: int
    step_s: Estimate | None = None
    units: float | None = None
    unit: str = ""
    units_per_s: Estimate | None = None
    over_base: Ratio | None = None
    over_group_of_one: Ratio | None = None
    efficiency: Estimate | None = None
    band: str = ""
    impossible: str = ""
    refused: str = ""
    serial_fraction: float | None = None
    communication_share: float | None = None
    spread: float | None = None
    memory_bytes: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Cases of one machine that differ only in how many processes compute together.

    Attributes:
        size: the parameters that they share.
        scaling: `strong` (the same step on more processes) or `weak` (the same step per process).
        whole: whether a step is a whole job.
        base: what speedups are over: one process without DDP, else one with it; None where neither is ok.
        levels: the process without DDP first, then by number of processes.
        notes: what a reader must know of the comparison, such as that the work differs.
    """

    hardware: str
    workload: str
    size: tuple[tuple[str, int], ...]
    precision: str
    scaling: str
    whole: bool
    base: ScalingLevel | None
    levels: tuple[ScalingLevel, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Readable heading, such as `ddpm_weak batch=32 · fp32`."""
        size = ", ".join(f"{name}={value}" for name, value in self.size)
        return f"{self.workload} {size} · {self.precision}".replace("  ", " ")
