"""The record of one repeat: immutable, versioned, enough to rebuild everything."""

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from workloads.harness.records.amounts import is_duration
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.errors import RecordError
from workloads.harness.records.parts import Control, Group, Latency, Profile, Training
from workloads.harness.records.printable import printable_json
from workloads.harness.records.program import MetricValue
from workloads.harness.records.script import ScriptRun
from workloads.harness.records.timing import Timing as Timing
from workloads.harness.records.typed_json import build, finite

SCHEMA = 5
LAUNCH_BOUND = 1.1  # a step's time over that of the device alone
WAITS = 0.05  # of a step: largest difference of events and busy time on a device that never waits
AT_LIMIT_SHARE = 0.5  # of the time in which power held the clock down


class Grade(StrEnum):
    """How a number is used: a verdict's is `Verdict.grade`, a record's `grade.grade_of`."""

    SOUND = "sound"
    WIDE = "wide"
    REFUSED = "refused"


class Verdict(StrEnum):
    """Whether a record is valid: `ok`, or the reason it is not; see `RULES`."""

    OK = "ok"
    UNSTEADY = "unsteady"
    IMPRECISE = "imprecise"
    THROTTLED = "throttled"
    SHARED = "shared"
    NOISY = "noisy"
    WRONG = "wrong"
    IMPOSSIBLE = "impossible"
    OUT_OF_MEMORY = "out_of_memory"
    UNCHECKED = "unchecked"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    PREEMPTED = "preempted"
    CAPACITY = "capacity"
    CRASHED = "crashed"
    SKIPPED = "skipped"

    @property
    def grade(self) -> Grade:
        return RULES[self].grade

    @property
    def is_failure(self) -> bool:
        return RULES[self].is_failure


class VerdictRule(NamedTuple):
    """The consequences of a verdict.

    Attributes:
        grade: the best that a record with this verdict can have.
        is_failure: no valid result; the task ends as Failed.
        is_worth_retry: the lane was lost before the measurement, which a resumed run repeats.
        is_of_machine: by the machine's state or loss: the same code can be measured again.
        is_inapplicable: the case is not for this machine.
    """

    grade: Grade
    is_failure: bool = False
    is_worth_retry: bool = False
    is_of_machine: bool = False
    is_inapplicable: bool = False


_FAILED = VerdictRule(Grade.REFUSED, is_failure=True)
_LANE_LOST = VerdictRule(Grade.REFUSED, is_failure=True, is_worth_retry=True, is_of_machine=True)
_NOT_FOR_MACHINE = VerdictRule(Grade.REFUSED, is_failure=True, is_inapplicable=True)
RULES = MappingProxyType(
    {  # from the lightest verdict to the gravest
        Verdict.OK: VerdictRule(Grade.SOUND),
        Verdict.IMPRECISE: VerdictRule(Grade.WIDE, is_of_machine=True),  # its error shows between repeats
        Verdict.UNSTEADY: VerdictRule(Grade.WIDE, is_of_machine=True),  # as long as its samples do not drift
        Verdict.NOISY: VerdictRule(Grade.WIDE, is_of_machine=True),  # within the bounds of a busy machine
        Verdict.SHARED: VerdictRule(Grade.REFUSED, is_of_machine=True),
        Verdict.THROTTLED: VerdictRule(Grade.REFUSED, is_of_machine=True),
        Verdict.WRONG: _FAILED,
        Verdict.IMPOSSIBLE: _FAILED,
        Verdict.OUT_OF_MEMORY: _FAILED,
        Verdict.UNCHECKED: _FAILED,
        Verdict.TIMEOUT: _FAILED,
        Verdict.UNSUPPORTED: _NOT_FOR_MACHINE,
        Verdict.PREEMPTED: _LANE_LOST,
        Verdict.CAPACITY: _LANE_LOST,
        Verdict.CRASHED: _FAILED,
        Verdict.SKIPPED: _NOT_FOR_MACHINE,
    }
)
COUNTING = frozenset(verdict for verdict, rule in RULES.items() if rule.grade is not Grade.REFUSED)
OF_THE_MACHINE = frozenset(verdict for verdict, rule in RULES.items() if rule.is_of_machine)
WORTH_RETRY = frozenset(verdict for verdict, rule in RULES.items() if rule.is_worth_retry)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a step, by the workload's formulas, in `units` of `unit`.

    Attributes:
        matmul_flops: those of `flops` in matrix products and convolutions.
        counted_flops: torch's count for a step.
        conv_flops: those in convolutions; of a job, an upper bound.
        launches: operations handed to the device.
        attention: kernels that ran: `flash`, `efficient`, `cudnn`, `flash_attention_for_cpu`, or `math` for
            several operations.
        chosen: a search's choice, such as m, n and k of the fastest product.
    """

    units: float
    unit: str
    flops: float | None
    bytes: float | None
    matmul_flops: float | None = None
    counted_flops: float | None = None
    launches: int | None = None
    parameters: int | None = None
    conv_flops: float | None = None
    attention: tuple[str, ...] = ()
    chosen: tuple[int, ...] = ()

    def with_counts(
        self, flops: float | None, launches: int, conv_flops: float, attention: tuple[str, ...] = ()
    ) -> "Work":
        return replace(
            self, counted_flops=flops, launches=launches, conv_flops=conv_flops, attention=attention
        )


@dataclass(frozen=True, slots=True)
class Transfer:
    """Moves of a step's inputs and result; zeros if the device is the host."""

    h2d_bytes: int = 0
    d2h_bytes: int = 0
    h2d_pageable_s: float = 0.0
    h2d_pinned_s: float = 0.0
    d2h_pageable_s: float = 0.0
    d2h_pinned_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result against a reference: relative error (2-norm), its bound, elements compared.

    `reference` is its type and place, such as `float64 on cpu`; None in older records.
    """

    error: float
    bound: float
    checked_elements: int
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """Peaks: of the host over the process, of the device over the samples.

    `process_…` are of the device over the whole process, with trials of layouts and checks; None in older
    records. `process_total_bytes` is the driver's, with context and libraries; None if NVML does not know it.
    """

    peak_rss_bytes: int | None = None
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None
    alloc_retries: int | None = None
    process_allocated_bytes: int | None = None
    process_reserved_bytes: int | None = None
    process_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """The state of the last-level cache before a step.

    Attributes:
        state: `warm` (left by the step before), `cold` (emptied before each sample), `n/a` (the data is at
            least four times as large).
        working_set_bytes: the least that a step touches: its compulsory traffic.
        last_level_bytes: all last-level caches within reach; None if unknown, for the reason in `why`.
    """

    state: str
    working_set_bytes: int
    last_level_bytes: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One repeat of a cell. Fields that a failed repeat never reached are None or empty.

    Attributes:
        order: place in the lane's shuffled order, from 0.
        layout: fastest memory layout of `layout_trials_s`, or of an earlier repeat. Behind a `+` follows
            attention's first-choice kernel, if several were tried.
        phases_s: seconds per phase of the process, which with `unattributed_s` add up to `wall_s`.
        inherited_s: seconds per phase of the process that this one was forked from; in no other field.
        wall: host time per step.
        device_time: time per step by the device's events, including its waits for the host, which `device_s`
            leaves out; None if the host is the device.
        probes: readings over the sampling window; `missing` has reasons for absent ones.
        monitor: background samples as columns of equal length; `t_s` is the time since the process started.
        environment: fingerprint of machine and stack; `environment_id` is its hash.
        reasons: sentences behind the verdict.
        data: source of the inputs: `synthetic`, or files.
        group: None if one process measured alone.
        latency: None for a whole job and for several processes, `cache` for a whole job.
        device_busy_s: seconds per step in which the device computes, by a separate pass; of a group's slowest
            rank. None if the host is the device, else for the reason in `missing`.
        script: None for a built-in workload.
        session: number of the machine's session, from 1: another box, or a later visit. None in a run with
            one.
    """

    run: str
    hardware: str
    case: Case
    repeat: int
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    schema: int = SCHEMA
    order: int = 0
    seed: int = 0
    started_at: str = ""
    device: str = "cpu"
    threads: int | None = None
    layout: str | None = None
    layout_trials_s: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    phases_s: dict[str, float] = field(default_factory=dict)
    unattributed_s: float = 0.0
    wall: Timing | None = None
    device_time: Timing | None = None
    work: Work | None = None
    transfer: Transfer | None = None
    check: Check | None = None
    memory: Memory | None = None
    energy_j: float | None = None
    probes: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    monitor: dict[str, tuple[float, ...]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    environment_id: str = ""
    data: str = "synthetic"
    training: Training | None = None
    group: Group | None = None
    profile: Profile | None = None
    cache: Cache | None = None
    control: Control | None = None
    latency: Latency | None = None
    device_busy_s: float | None = None
    script: ScriptRun | None = None
    inherited_s: dict[str, float] = field(default_factory=dict)
    session: int | None = None

    @property
    def cell(self) -> Cell:
        return Cell(self.hardware, self.case)

    @property
    def id(self) -> str:
        return f"{self.cell.id}#{self.repeat}"

    @property
    def ok(self) -> bool:
        """A wide record can count too, see `grade.counts`."""
        return self.verdict is Verdict.OK

    @property
    def metrics(self) -> tuple[MetricValue, ...]:
        return self.script.program.metrics if self.script and self.script.program else ()

    @property
    def fresh_phases_s(self) -> dict[str, float]:
        names = dict.fromkeys((*self.phases_s, *self.inherited_s))
        return {name: self.phases_s.get(name, 0.0) + self.inherited_s.get(name, 0.0) for name in names}

    @property
    def compute_s(self) -> float | None:
        """Seconds per step with data in place, by the device's events, waits included, or the host's clock."""
        timing = self.device_time or self.wall
        return timing.median_s if timing else None

    @property
    def mean_s(self) -> float | None:
        """Seconds per step over all samples, for throughput: a median would leave out the slow steps."""
        timing = self.device_time or self.wall
        return timing.total_mean_s if timing else None

    @property
    def busy_s(self) -> float | None:
        """Seconds per step in which the device computes, without gaps; None if unknown.

        From the pass after the samples, else from a profile's kernels. A device at its power limit is faster
        after a pause than in the samples: neither counts then, unless the samples have a sustained rate, to
        which the pass is relative.
        """
        if self.device_time and self.device_time.sustained:
            return self.device_busy_s
        if self.probes.get("power_throttled_share", 0.0) > AT_LIMIT_SHARE:
            return None
        if self.device_busy_s is None and self.profile and self.profile.busy_s and self.profile.steps:
            return self.profile.busy_s / self.profile.steps
        return self.device_busy_s

    @property
    def busy_share(self) -> float | None:
        return _share(self.busy_s, self.device_time)

    @property
    def waiting_share(self) -> float | None:
        return None if self.busy_share is None else max(1 - self.busy_share, 0.0)

    @property
    def waits(self) -> bool:
        """True if the device's wait for its host exceeds the error of timing."""
        return (self.waiting_share or 0.0) > WAITS

    @property
    def device_s(self) -> float | None:
        """Seconds per step in which the device works; the time by events unless it waits for its host."""
        if self.waits:
            return self.busy_s
        return self.device_time.median_s if self.device_time else None

    @property
    def launch_bound(self) -> bool:
        return self.busy_share is not None and LAUNCH_BOUND * self.busy_share < 1

    @property
    def sustained_share(self) -> float | None:
        """Speed after a soak over that of the first second."""
        return _share(self.wall.burst_s, self.wall) if self.wall else None

    @property
    def end_to_end_s(self) -> float | None:
        if self.wall is None or self.transfer is None:
            return None
        return self.wall.median_s + self.transfer.h2d_pageable_s + self.transfer.d2h_pageable_s

    def to_json(self) -> str:
        """Return one line of JSON, or raise ValueError for a number that is not finite."""
        return json.dumps(asdict(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Read a record, with its texts made printable, or raise RecordError."""
        try:
            raw = printable_json(json.loads(text, parse_float=finite, parse_constant=finite), text)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"the record is not JSON ({error}); measure the cell again") from None
        if not isinstance(raw, dict):
            raise RecordError(f"the record is a {type(raw).__name__}, not an object; measure the cell again")
        if raw.get("schema") != SCHEMA:
            raise RecordError(
                f"the record has schema {raw.get('schema')!r} and this version reads schema {SCHEMA}; "
                "read it with the version of Gridbench that wrote it"
            )
        return build(cls, raw, "record")


def _share(part_s: float | None, timing: Timing | None) -> float | None:
    if part_s is None or timing is None or not (is_duration(part_s) and is_duration(timing.median_s)):
        return None
    return part_s / timing.median_s
