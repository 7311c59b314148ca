"""The energy of a step, from a machine's energy counter."""

from dataclasses import dataclass

from workloads.harness.records.record import Record


@dataclass(frozen=True, slots=True)
class StepEnergy:
    """Energy and power of a record's steps.

    Attributes:
        step_j: joules per step, including steps that warm up a GPU within the window.
        unit_j: joules per unit of work; None if the work is not stated.
        power_w: mean watts over the window; None if its length is unknown.
        error_share: half the relative width of all three, by the counter's resolution; None if unknown.
    """

    step_j: float
    unit_j: float | None
    power_w: float | None
    error_share: float | None


def energy_of(record: Record) -> StepEnergy | None:
    if record.energy_j is None or record.wall is None or not record.wall.samples_s:
        return None
    probes = record.probes
    steps = probes.get("window_steps", 0.0)
    step_j = record.energy_j / (steps if steps >= 1 else record.wall.timed_steps)
    units = record.work.units if record.work else 0.0
    window_s = probes.get("window_end_s", 0.0) - probes.get("window_start_s", 0.0)
    error_j = probes.get("gpu_energy_error_j") if record.device == "cuda" else None
    return StepEnergy(
        step_j,
        step_j / units if units > 0 else None,
        record.energy_j / window_s if window_s > 0 else None,
        error_j / record.energy_j if error_j is not None and record.energy_j > 0 else None,
    )
