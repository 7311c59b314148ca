"""How well more devices of the same model pay: efficiency, its band, and Karp and Flatt's serial fraction."""

from typing import Any

from tasks.results.model import Machine
from tasks.results.speedup import scaled
from tasks.results.values import Estimate
from workloads.harness.records.record import Record

# A legend that is known for 8 devices, as shares that hold for any number: 8x perfect, 6-7x good (75-87.5 %),
# 4-6x acceptable (50-75 %), below that poor. It leaves 7-8x unnamed: here that is very good.
BANDS = ((0.875, "very good"), (0.75, "good"), (0.50, "acceptable"), (0.0, "poor"))
PERFECT = "perfect"  # very good by its lower bound, and 100 % is within the interval
TOO_GOOD = "above 100 %"
ABOVE_LINEAR = 1.05  # an efficiency beyond this is no scaling: the work, the baseline or a clock is wrong


def devices(record: Record, machine: Machine | None) -> int | None:
    """Return the number of devices that a record used: a CPU's threads, else accelerators; None if unknown.

    The fingerprint lists the accelerators in use. Only without it are they all that the machine has: one
    of eight runs most workloads on a single one. Processes that measure together use one each, or their
    threads each.
    """
    processes = len(record.group.ranks) if record.group else 1
    if record.device == "cpu":
        return record.threads * processes if record.threads else None
    if record.group:
        return processes
    return len(_gpus(record)) or (machine.devices if machine else None) or None


def device_model(record: Record) -> str | None:
    """The name of the device's model from the fingerprint; None where it has none."""
    gpus = _gpus(record)
    name = record.environment.get("cpu_model") if record.device == "cpu" else gpus and gpus[0].get("name")
    return str(name) if name else None


def device_ratio(
    record: Record, machine: Machine | None, baseline: Record, baseline_machine: Machine | None
) -> float | None:
    """Devices / baseline devices; None unless there are more of the same kind and, where known, model."""
    models = {device_model(record), device_model(baseline)} - {None}
    count, base = devices(record, machine), devices(baseline, baseline_machine)
    if record.device != baseline.device or len(models) > 1 or not count or not base or count <= base:
        return None
    return count / base


def efficiency(speedup: Estimate, ratio: float) -> Estimate:
    """Speedup per device, 1 where every added device pays in full: E = S / N.

    With the same step on both sides it is strong scaling, E = T1 / (N TN); with a step of N times the work,
    whose speedup is one of throughput, weak scaling.
    """
    return scaled(speedup, 1 / ratio)


def band(estimate: Estimate) -> str:
    """The name of an efficiency, by its lower bound, or by its value where there are no bounds.

    An interval that reaches 100 % makes it perfect, unless it is so wide that it holds worse than very good.
    """
    least = estimate.value if estimate.low is None else estimate.low
    most = estimate.value if estimate.high is None else estimate.high
    if least > ABOVE_LINEAR:
        return TOO_GOOD
    if least >= BANDS[0][0] and most >= 1:
        return PERFECT
    return next((name for floor, name in BANDS if least >= floor), BANDS[-1][1])


def serial_fraction(speedup: float, ratio: float) -> float | None:
    """Part of the work that does not spread: e = (1/S - 1/N) / (1 - 1/N); None for N <= 1.

    From 0 (none) to 1 (all). Constant over N it is serial work, rising with N it is communication.
    Source: Karp & Flatt 1990, Measuring parallel processor performance, CACM 33(5).
    """
    if ratio <= 1 or speedup <= 0:
        return None
    return (1 / speedup - 1 / ratio) / (1 - 1 / ratio)


def scaled_serial_fraction(speedup: float, ratio: float) -> float | None:
    """Part of a process's time that does not spread when the work grows with N: s = (N - S) / (N - 1).

    The counterpart of Karp and Flatt's for weak scaling, where S is a speedup of throughput; None for N <= 1.
    Source: Gustafson 1988, Reevaluating Amdahl's law, CACM 31(5): S = N - s (N - 1).
    """
    return None if ratio <= 1 else (ratio - speedup) / (ratio - 1)


def serial(kind: str, speedup: float, ratio: float) -> float | None:
    """The serial fraction by the law of its kind: Karp and Flatt's for `strong`, Gustafson's for `weak`."""
    of_kind = scaled_serial_fraction if kind == "weak" else serial_fraction
    return of_kind(speedup, ratio)


def _gpus(record: Record) -> list[dict[str, Any]]:
    listed = record.environment.get("gpus")
    return [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []


def scaling(units: float | None, baseline_units: float | None) -> str:
    """`strong` where a step is the same work on both sides, `weak` where it grows with the devices."""
    return "weak" if units and baseline_units and units > baseline_units else "strong"
