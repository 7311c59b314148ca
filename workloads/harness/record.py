"""The record that one repeat of a cell leaves: immutable, versioned, and enough to rebuild everything.

Schema history:
    1  first version
"""

import json
import math
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, TypeVar

from workloads.harness.case import Case, Cell
from workloads.harness.errors import RecordError

SCHEMA = 1
T = TypeVar("T")


class Verdict(StrEnum):
    """What a record is worth. Only `ok` enters a ratio."""

    OK = "ok"
    UNSTEADY = "unsteady"
    IMPRECISE = "imprecise"
    THROTTLED = "throttled"
    SHARED = "shared"
    NOISY = "noisy"
    WRONG = "wrong"
    IMPOSSIBLE = "impossible"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    PREEMPTED = "preempted"
    CAPACITY = "capacity"
    CRASHED = "crashed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per step. A sample is the time of a block of `block` steps divided by `block`.

    `ci_low_s` and `ci_high_s` bound the median at 95 % (order statistics); None below 6 samples.
    `steady` is whether warm-up ended by agreement; `precision_reached` whether sampling ended by it.
    """

    samples_s: tuple[float, ...]
    block: int
    median_s: float
    ci_low_s: float | None
    ci_high_s: float | None
    p95_s: float
    max_s: float
    outliers_mild: int
    outliers_severe: int
    steady: bool
    precision_reached: bool
    warmup_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What one step does, by the workload's own formulas: `units` counts things of name `unit`."""

    units: float
    unit: str
    flops: float | None
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Moving one step's inputs to the device and its result back; zeros where the device is the host."""

    h2d_bytes: int = 0
    d2h_bytes: int = 0
    h2d_pageable_s: float = 0.0
    h2d_pinned_s: float = 0.0
    d2h_pageable_s: float = 0.0
    d2h_pinned_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result against a float64 reference: relative error (2-norm), its bound, elements compared."""

    error: float
    bound: float
    checked_elements: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Peaks over the whole process. Device figures are None on a CPU."""

    peak_rss_bytes: int | None = None
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None
    alloc_retries: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One repeat of a cell. Fields that a failed repeat never reached are None or empty.

    Attributes:
        order: place in the lane's shuffled order, from 0.
        device: `cpu` or `cuda`.
        threads: torch's intra-op threads; None before they were set.
        layout: memory layout that was measured, the fastest of `layout_trials_s`.
        phases_s: seconds per phase of the process, which with `unattributed_s` add up to `wall_s`.
        wall: host time per step; `device_time`: event time per step, None where there is no device.
        probes: readings over the sampling window; a reading that is absent here is in `missing`.
        missing: probe name to the reason why this machine can't give it.
        monitor: background samples as columns of equal length; `t_s` is the time since the process started.
        environment: fingerprint of machine and stack; `environment_id` is its hash.
        reasons: sentences behind the verdict.
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

    @property
    def cell(self) -> Cell:
        """The cell that this record is a repeat of."""
        return Cell(self.hardware, self.case)

    @property
    def id(self) -> str:
        """The cell's id and the number of the repeat, as the repeat itself is called."""
        return f"{self.cell.id}#{self.repeat}"

    @property
    def ok(self) -> bool:
        """Whether this record may enter a ratio."""
        return self.verdict is Verdict.OK

    @property
    def compute_s(self) -> float | None:
        """Seconds per step with the data in place: device time, or host time where the host is the device."""
        timing = self.device_time or self.wall
        return timing.median_s if timing else None

    @property
    def end_to_end_s(self) -> float | None:
        """Seconds per step with its inputs moved there and its result moved back, from pageable memory."""
        if self.wall is None or self.transfer is None:
            return None
        return self.wall.median_s + self.transfer.h2d_pageable_s + self.transfer.d2h_pageable_s

    def to_json(self) -> str:
        """One line of JSON. NaN and infinity can't occur: they are refused here.

        Raises:
            ValueError: a number is not finite.
        """
        return json.dumps(asdict(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Read a record.

        Raises:
            RecordError: the text is corrupt, a field is missing, unknown or of a wrong type, or the schema
                is of another version.
        """
        try:
            raw = json.loads(text, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"the record is not JSON ({error}); measure the cell again") from None
        if not isinstance(raw, dict):
            raise RecordError(f"the record is a {type(raw).__name__}, not an object; measure the cell again")
        if raw.get("schema") != SCHEMA:
            raise RecordError(
                f"the record has schema {raw.get('schema')!r}, this version reads {SCHEMA}; "
                "read it with the version that wrote it"
            )
        return _build(cls, raw, "record")


def _finite(text: str) -> float:
    """A number in JSON, unless it could not be written again: NaN, Infinity and 1e999 raise ValueError."""
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"{text} is not a finite number")


def _build(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """Make a dataclass from parsed JSON, checking every field's name and type."""
    if not isinstance(raw, Mapping):
        raise RecordError(f"field {where} is {raw!r}, expected an object")
    hints = typing.get_type_hints(kind)
    unknown = sorted(raw.keys() - hints.keys())
    if unknown:
        raise RecordError(f"{where} has the unknown field {unknown[0]!r}")
    values = {name: _convert(hints[name], value, f"{where}.{name}") for name, value in raw.items()}
    try:
        return kind(**values)
    except TypeError:
        missing = sorted({f.name for f in fields(kind)} - values.keys())  # type: ignore[arg-type]
        raise RecordError(f"{where} lacks one of the fields {', '.join(missing)}") from None


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Convert one parsed JSON value to the annotated type, or say what it should have been."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or (value is None and types.NoneType in args):
        return value
    if origin in (types.UnionType, typing.Union):
        return _convert(next(a for a in args if a is not types.NoneType), value, where)
    if origin is tuple and isinstance(value, list):
        inner = args if args[-1] is not Ellipsis else (args[0],) * len(value)
        if len(inner) == len(value):
            return tuple(
                _convert(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(inner, value, strict=True))
            )
    elif origin is dict and isinstance(value, dict):
        return {key: _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    elif is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value, where)
    elif hint is Verdict and value in list(Verdict):
        return Verdict(value)
    elif hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    elif hint in (int, str, bool) and type(value) is hint:
        return value
    raise RecordError(f"field {where} is {str(value)[:60]!r}, expected {getattr(hint, '__name__', hint)}")
