"""How well more devices of the same model pay: efficiency, its band, and Karp and Flatt's serial fraction."""

from typing import Any

from tasks.analysis.model import Estimate, Machine
from tasks.analysis.speedup import scaled
from workloads.harness.record import Record

# The seed's legend for 8 devices: 8x perfect, 6-7x good (75-87.5 %), 4-6x acceptable (50-75 %), below poor.
# It leaves 7-8x unnamed: here 87.5-95 % is very good, and from 95 % (7.6x of 8) it is perfect.
BANDS = ((0.95, "perfect"), (0.875, "very good"), (0.75, "good"), (0.50, "acceptable"), (0.0, "poor"))
ABOVE_LINEAR = 1.05  # an efficiency beyond this is no scaling: the work, the baseline or a clock is wrong


def devices(record: Record, machine: Machine | None) -> int | None:
    """How many devices a record used: a CPU's threads, else accelerators; None if unknown.

    The fingerprint lists the accelerators in use. Only without it are they all that the machine has: one
    of eight runs most workloads on a single one.
    """
    if record.device == "cpu":
        return record.threads
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
    """The name of an efficiency, by its lower bound, or by its value where there are no bounds."""
    least = estimate.value if estimate.low is None else estimate.low
    if least > ABOVE_LINEAR:
        return "above 100 %"
    return next(name for floor, name in BANDS if least >= floor)


def serial_fraction(speedup: float, ratio: float) -> float | None:
    """Part of the work that does not spread: e = (1/S - 1/N) / (1 - 1/N); None for N <= 1.

    From 0 (none) to 1 (all). Constant over N it is serial work, rising with N it is communication.
    Source: Karp & Flatt 1990, Measuring parallel processor performance, CACM 33(5).
    """
    if ratio <= 1 or speedup <= 0:
        return None
    return (1 / speedup - 1 / ratio) / (1 - 1 / ratio)


def _gpus(record: Record) -> list[dict[str, Any]]:
    listed = record.environment.get("gpus")
    return [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []


def scaling(units: float | None, baseline_units: float | None) -> str:
    """`strong` where a step is the same work on both sides, `weak` where it grows with the devices."""
    return "weak" if units and baseline_units and units > baseline_units else "strong"
