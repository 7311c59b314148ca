"""Parts of a record that only some repeats have: a training, a group, a profile, a control."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MemoryAt:
    """Bytes of device memory (of the process on a CPU) that `rank` held after a step, and its peak so far."""

    step: int
    rank: int
    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Training:
    """The course of a training or of a whole job.

    Attributes:
        first_loss, last_loss: of the first step, and of the last one since the weights were new; None in a
            whole job that learns nothing.
        losses: of every step, in order, in a whole job; empty in a steady-state measurement.
        step_s: host seconds from step to step of a whole job.
        metric, value, target: what a whole job was to reach; None in a steady-state measurement.
        memory: over a whole job, by step and rank.
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
    """Seconds of single steps, each waited for, as a user waits who sends one request after the other.

    `p99_s` is None below 100 steps.
    """

    steps: int
    p50_s: float
    p95_s: float
    p99_s: float | None
    max_s: float


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of several that measured together: its own time per step and its peak memory.

    Attributes:
        median_s, mean_s: own seconds per step over the samples, without waiting for the others; records before
            November 2026 have no mean.
        alone_s: mean seconds per step while all others waited; None without such a measurement.
        probes: readings of the process's GPU over the samples: power, temperature, clock, throttling, faults.
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
    """Several processes that measured together; a step takes as long as the slowest of them.

    Attributes:
        backend: `nccl` or `gloo`.
        scaling: `strong` (the same step on more processes) or `weak` (the same step per process).
        communication_share: share of a step that goes away when gradients are not exchanged.
        spread: slowest rank's time over the fastest's, minus 1; of steps without exchange where there is one,
            because with it all wait for the slowest.
    """

    backend: str
    scaling: str
    ranks: tuple[Rank, ...]
    communication_share: float | None = None
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """One row of a profile: an operator, how often it ran in `Profile.steps` steps, and what it took.

    `shapes` are its inputs', where they were recorded. Self times leave out what it called.
    """

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
    """The operators that took most time in a pass apart from the timed one.

    Attributes:
        kernels: kernels that ran on the device; None where the host is the device.
        busy_s: seconds in which the device ran one of them; of `wall_s` seconds that the pass took.
    """

    steps: int
    wall_s: float
    sorted_by: str
    operators: tuple[Operator, ...]
    kernels: int | None = None
    busy_s: float | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """The same repeat, measured next to it on the same box: in a frozen reference environment, or at another version.

    Attributes:
        reference: id of a frozen environment; empty where it ended without saying it, and for a version.
        verdict: one of `Verdict`, as text; only an `ok` control says how the box was.
        reasons: sentences behind the verdict.
        compute_s: seconds per step with the data in place, as a record has them; None where there are none.
        environment_id: hash of the machine and of the reference's stack.
    """

    reference: str
    verdict: str
    reasons: tuple[str, ...] = ()
    compute_s: float | None = None
    environment_id: str = ""
    started_at: str = ""
