"""Parts of a record that only some repeats have."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MemoryAt:
    """Bytes of device memory (a process's on a CPU) that `rank` held after a step, and its peak."""

    step: int
    rank: int
    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Training:
    """The course of a training or of a whole job.

    Attributes:
        first_loss, last_loss: of the first step, and of the last with the same weights; None without a
            training.
        losses: of every step of a whole job; empty in a steady-state measurement.
        step_s: host seconds from step to step of a whole job.
        metric, value, target: of a whole job's goal; None in a steady-state measurement.
    """

    first_loss: float | None
    last_loss: float | None
    losses: tuple[float, ...] = ()
    step_s: tuple[float, ...] = ()
    metric: str = ""
    value: float | None = None
    target: float | None = None
    memory: tuple[MemoryAt, ...] = ()


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of single synchronised steps; `p99_s` is None below 100 steps."""

    steps: int
    p50_s: float
    p95_s: float
    p99_s: float | None
    max_s: float


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of several that measured together: its times and memory.

    Attributes:
        median_s, mean_s: own seconds per step without waiting; records before November 2026 have no mean.
        alone_s: mean seconds per step while all others waited; None if not measured.
        probes: of its GPU over the samples.
    """

    rank: int
    device: str
    median_s: float
    peak_rss_bytes: int | None = None
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None
    mean_s: float | None = None
    alone_s: float | None = None
    probes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Several processes that measured together, in steps as long as the slowest's.

    Attributes:
        scaling: `strong` (the same step on more processes) or `weak` (the same step per process).
        communication_share: share of a step that goes away without the exchange of gradients.
        spread: slowest rank's time over the fastest's, minus 1; if possible of steps without exchange.
    """

    backend: str
    scaling: str
    ranks: tuple[Rank, ...]
    communication_share: float | None = None
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's calls and times in a profile's `steps` steps; self times leave out inner operators."""

    name: str
    calls: int
    self_cpu_s: float
    cpu_s: float
    self_device_s: float
    device_s: float
    self_memory_bytes: int
    shapes: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """The slowest operators in a pass after the timed one.

    Attributes:
        kernels: that ran on the device; None if the host is the device.
        busy_s: seconds in which a kernel ran, of the pass's `wall_s` seconds.
    """

    steps: int
    wall_s: float
    sorted_by: str
    operators: tuple[Operator, ...]
    kernels: int | None = None
    busy_s: float | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """The same repeat in a frozen reference environment, or at another version, on the same box.

    Attributes:
        reference: id of a frozen environment; empty for a version, and if it ended before it reported one.
        verdict: a `Verdict` as text; only an `ok` control describes the box.
        compute_s: as in `Record`; None without such times.
        environment_id: hash of the machine and of the reference's stack.
    """

    reference: str
    verdict: str
    reasons: tuple[str, ...] = ()
    compute_s: float | None = None
    environment_id: str = ""
    started_at: str = ""
