"""One summary per cell."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from tasks.results.cost import usd_per_million_units
from tasks.results.model import Machine, Summary
from tasks.results.repeats import FEWEST, Repeats
from tasks.results.values import Estimate
from workloads.harness.records.case import Cell
from workloads.harness.records.intervals import half_of_mean, log_mean_interval
from workloads.harness.records.record import Record

COLD_PHASES = ("process_start", "import", "context", "build", "first_call")
MODE_PHASES = ("compile", "capture")  # of other modes than eager, which a first result waits for as well


def summarise(cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[Summary, ...]:
    prices = {machine.name: machine.usd_per_hour for machine in machines}
    return tuple(summary(cell, prices.get(cell.cell.hardware)) for cell in cells)


def summary(cell: Repeats, usd_per_hour: float | None) -> Summary:
    """Summarise the usable repeats."""
    compute, typical = over_repeats(cell.compute_s), over_repeats(cell.median_s)
    like = (cell.usable or cell.records)[0]
    work = like.work if cell.usable else None
    rate = 1 / compute.value if compute else None
    return Summary(
        cell=cell.cell,
        verdict=cell.verdict,
        reasons=cell.reasons,
        why=cell.why,
        busy=cell.busy,
        repeats=len(cell.records),
        ok_repeats=len(cell.usable),
        compute_s=compute,
        end_to_end_s=over_repeats(cell.end_to_end_s),
        median_s=typical.value if typical else None,
        units_per_s=work.units * rate if work and rate else None,
        unit=like.work.unit if like.work else "",
        flops_per_s=work.flops * rate if work and work.flops and rate else None,
        cold_s=median_or_none(map(cold_s, cell.usable)),
        usd_per_million_units=usd_per_million_units(compute, cell.units, usd_per_hour),
        threads=like.threads,
        device=like.device,
        units=cell.units,
        whole=bool(like.wall and like.wall.whole),
        device_s=over_repeats(_given(record.device_s for record in cell.usable)),
        busy_share=over_repeats(_given(record.busy_share for record in cell.usable)),
        sustained_share=over_repeats(_given(record.sustained_share for record in cell.usable)),
    )


def over_repeats(times: Sequence[float]) -> Estimate | None:
    """Return the geometric mean with its t-interval; no bounds from one repeat."""
    if not times:
        return None
    interval = log_mean_interval(times)
    return Estimate.of(interval) if interval else Estimate(times[0])


def mean_of(values: Sequence[float]) -> Estimate:
    """Return the mean with its t-interval; no bounds from one repeat."""
    mean = statistics.fmean(values)
    if len(values) < FEWEST:
        return Estimate(mean)
    half = half_of_mean(values)
    return Estimate(mean, mean - half, mean + half)


def cold_s(record: Record) -> float | None:
    """Return seconds from process start to the end of the first call."""
    phases_s = record.fresh_phases_s
    phases = [phases_s.get(name) for name in COLD_PHASES]
    available = [seconds for seconds in phases if seconds is not None]
    mode_s = sum(phases_s.get(name, 0.0) for name in MODE_PHASES)
    return sum(available) + mode_s if len(available) == len(COLD_PHASES) else None


def most_per_machine(
    cells: Iterable[Repeats],
    measure: Callable[[Repeats], Estimate | None],
    least: float,
    text: Callable[[Cell, Estimate], str],
) -> list[str]:
    """Return each machine's cell with the highest lower bound, from `least` on."""
    most: dict[str, tuple[float, str]] = {}
    for repeats in cells:
        value, cell = measure(repeats), repeats.cell
        if value is not None and value.low is not None and value.low >= least:
            candidate = (value.low, text(cell, value))
            most[cell.hardware] = max(most.get(cell.hardware, candidate), candidate)
    return [sentence for _, sentence in most.values()]


def _given(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def median_or_none(values: Iterable[float | None]) -> float | None:
    available = _given(values)
    return statistics.median(available) if available else None
