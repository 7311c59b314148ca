"""Scaling on more devices of one model."""

from typing import Any

from tasks.results.model import Machine
from tasks.results.speedup import scaled
from tasks.results.values import Estimate
from workloads.harness.records.record import Record

# A known legend for 8 devices, as shares for any number: 8x perfect, 6-7x good (75-87.5 %), 4-6x acceptable
# (50-75 %), below that poor. It does not name 7-8x, here very good.
BANDS = ((0.875, "very good"), (0.75, "good"), (0.50, "acceptable"), (0.0, "poor"))
PERFECT = "perfect"  # very good by its lower bound, and 100 % is within the interval
TOO_GOOD = "above 100 %"
ABOVE_LINEAR = 1.05  # a higher efficiency means that the work, the baseline or a clock is wrong


def devices(record: Record, machine: Machine | None) -> int | None:
    """Return a CPU's threads, else accelerators; None if unknown.

    The fingerprint's, else the machine's count. Each process of a group uses one, or its threads.
    """
    processes = len(record.group.ranks) if record.group else 1
    if record.device == "cpu":
        return record.threads * processes if record.threads else None
    if record.group:
        return processes
    return len(_gpus(record)) or (machine.devices if machine else None) or None


def device_model(record: Record) -> str | None:
    gpus = _gpus(record)
    name = record.environment.get("cpu_model") if record.device == "cpu" else gpus and gpus[0].get("name")
    return str(name) if name else None


def device_ratio(
    record: Record, machine: Machine | None, baseline: Record, baseline_machine: Machine | None
) -> float | None:
    """Return None unless there are more of the same model."""
    models = {device_model(record), device_model(baseline)} - {None}
    count, base = devices(record, machine), devices(baseline, baseline_machine)
    if record.device != baseline.device or len(models) > 1 or not count or not base or count <= base:
        return None
    return count / base


def efficiency(speedup: Estimate, ratio: float) -> Estimate:
    """Return E = S / N, which is 1 for perfect scaling.

    With the same step it is strong scaling, E = T1 / (N TN); with N times the work, weak scaling.
    """
    return scaled(speedup, 1 / ratio)


def band(estimate: Estimate) -> str:
    """Return an efficiency's name by its lower bound, else its value.

    Perfect: the interval reaches 100 % and lies within very good.
    """
    least = estimate.value if estimate.low is None else estimate.low
    most = estimate.value if estimate.high is None else estimate.high
    if least > ABOVE_LINEAR:
        return TOO_GOOD
    if least >= BANDS[0][0] and most >= 1:
        return PERFECT
    return next((name for floor, name in BANDS if least >= floor), BANDS[-1][1])


def serial_fraction(speedup: float, ratio: float) -> float | None:
    """Return the serial part of the work (0 to 1): e = (1/S - 1/N) / (1 - 1/N); None for N <= 1.

    Constant over N it is serial work, rising with N communication. Source: Karp & Flatt 1990, CACM 33(5).
    """
    if ratio <= 1 or speedup <= 0:
        return None
    return (1 / speedup - 1 / ratio) / (1 - 1 / ratio)


def scaled_serial_fraction(speedup: float, ratio: float) -> float | None:
    """Return the serial part of a process's time: s = (N - S) / (N - 1).

    For weak scaling, with a speedup S of throughput; None for N <= 1. Source: Gustafson 1988, CACM 31(5).
    """
    return None if ratio <= 1 else (ratio - speedup) / (ratio - 1)


def serial(kind: str, speedup: float, ratio: float) -> float | None:
    """Return Karp and Flatt's for `strong`, Gustafson's for `weak`."""
    return (scaled_serial_fraction if kind == "weak" else serial_fraction)(speedup, ratio)


def _gpus(record: Record) -> list[dict[str, Any]]:
    listed = record.environment.get("gpus")
    return [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []


def scaling(units: float | None, baseline_units: float | None) -> str:
    """Return `strong` for the same work on both sides, `weak` if it grows."""
    return "weak" if units and baseline_units and units > baseline_units else "strong"
