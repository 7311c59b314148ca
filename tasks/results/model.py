"""Machines, summaries, pairings, totals."""

from dataclasses import dataclass

from tasks.results.values import Estimate, Ratio
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.record import LAUNCH_BOUND, WAITS, Grade, Verdict
from workloads.harness.roofline.roofline import Bound


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of hardware for a comparison.

    Attributes:
        price_note: such as "on-demand, 2026-07-20".
        devices: accelerators; 0 for a CPU machine.
        peak_flops: FLOP/s by precision.
        reach: least share of peaks that large matrix products reach.
        instance_type, purchase: that records must state, if planned.
        shape: hardware of which it is one of several machines.
        box: the same text for entries of one computer that took turns; else empty.
        idle_s: paid seconds after its last job.
        slice: the MIG slice of its records; its rates are then unknown.
        gpus_called: words in drivers' names by model.
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
    slice: str = ""
    box: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """One cell's repeats together.

    Attributes:
        verdict: the gravest of the valid repeats; else that of the first repeat.
        reasons: all, of repeats and plausibility, once.
        why: of the repeats with this verdict, the gravest first.
        busy: other programs ran during a valid repeat; without one, during any.
        ok_repeats: sound or wide.
        compute_s, end_to_end_s: per step (geometric mean).
        median_s: less than `compute_s` if some steps are slow.
        units_per_s: total work over total time.
        cold_s: from process start to the end of the first call, median.
        units: of one step, over all devices.
        whole: a step is a whole job, timed once per repeat.
        device_s: per step, without waiting for the host if known; None if the host is the device.
        busy_share: part of a step in which the device computes.
        sustained_share: speed after a soak over the first second's.
        reported: such as `1234 tokens/s (1200–1260)`.
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
    device_s: Estimate | None = None
    busy_share: Estimate | None = None
    sustained_share: Estimate | None = None
    why: tuple[str, ...] = ()
    busy: bool = False
    reported: str = ""

    @property
    def waiting_share(self) -> Estimate | None:
        """Return the part of a step in which the device waits."""
        if self.busy_share is None:
            return None
        low, value, high = self.busy_share.low, self.busy_share.value, self.busy_share.high
        bounds = (None if bound is None else min(max(1 - bound, 0.0), 1.0) for bound in (high, low))
        return Estimate(max(1 - value, 0.0), *bounds)

    @property
    def waits(self) -> bool:
        """Return the same as `Record.waits`."""
        return self.waiting_share is not None and self.waiting_share.value > WAITS

    @property
    def launch_bound(self) -> bool:
        """Return the same as `Record.launch_bound`."""
        return self.busy_share is not None and LAUNCH_BOUND * self.busy_share.value < 1

    @property
    def grade(self) -> Grade:
        """Return `refused` without a valid repeat."""
        return self.verdict.grade if self.ok_repeats else Grade.REFUSED

    @property
    def complete(self) -> bool:
        """Return whether there are repeats, all of them valid."""
        return 0 < self.repeats <= self.ok_repeats


@dataclass(frozen=True, slots=True)
class Pairing:
    """A cell against the baseline's.

    Attributes:
        compute, end_to_end: baseline time / time; per unit of work if steps differ (weak scaling).
        efficiency: compute speedup / (devices / baseline devices), on the same model. `efficiency_band`: by
            its lower bound.
        scaling: `strong` (the same step on more devices) or `weak` (the same step per device).
        serial_fraction: Karp and Flatt's for strong scaling, Gustafson's for weak.
        payback_calls: until a faster machine has repaid its longer cold start; 0 if it is not longer; None if
            it is not shown to be faster.
        cost: (baseline price x time) / (price x time), above 1 is cheaper.
        refused: why there is no ratio; else empty.
        grade: `wide` if a side is.
        provisional: a side was busy, or its CPU's speed varied.
        own_compute: by this run's repeats alone, if earlier ones widened `compute`.
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
    own_compute: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """One pass over all cases valid on every machine.

    Attributes:
        cases: summed, of `measured` ones.
        seconds: sum of compute times per step.
        speedup: the baseline's seconds / these.
        provisional: why an idle machine can give another total; else empty.
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
    """One number of processes in a family.

    Attributes:
        grouped: False for the base without DDP.
        reasons: why it is valid only in part, or not.
        step_s: of the slowest process.
        units: of a step over all processes.
        over_base, over_group_of_one: throughput over the base's, and over one process's with DDP.
        efficiency, band: speedup over the base / ratio of devices.
        impossible: why the efficiency is implausible; shown, not used.
        refused: why there is no efficiency.
        communication_share, spread: as in `Group`, median.
        memory_bytes: peak by rank, maximum over repeats.
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
    """Cases of one machine that differ only in the number of processes.

    Attributes:
        scaling: `strong` (the same step on more processes) or `weak` (the same step per process).
        whole: a step is a whole job.
        base: one process without DDP, else one with it.
        levels: the one without DDP first, then by processes.
        notes: limits of the comparison, such as different work.
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
        """Return such as `ddpm_weak batch=32 · fp32`."""
        size = ", ".join(f"{name}={value}" for name, value in self.size)
        return f"{self.workload} {size} · {self.precision}".replace("  ", " ")
