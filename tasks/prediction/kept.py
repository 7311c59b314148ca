"""Predictions kept next to results, and those measured later."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan
from tasks.prediction.evidence import MOST_RUNS, evidence_in
from tasks.prediction.offered import how_to_reach
from tasks.prediction.step import Prediction
from tasks.results.billing import usd
from tasks.results.forecast import STEPS, Forecast
from tasks.results.format import format_seconds, format_usd
from tasks.results.values import Estimate
from tasks.store.store import Store, runs
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

FILE = "predictions.jsonl"
MOST_LINES, MOST_CHARACTERS = 10_000, 10_000


def forecasts(rows: Iterable[Prediction], machines: Iterable[Hardware], factor: float) -> list[Forecast]:
    """Return predictions as kept, with intervals wider by `factor`."""
    by_name = {machine.name: machine for machine in machines}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [
        Forecast(
            hardware=row.target,
            case=row.case.id,
            source=row.source,
            card=target.gpu or target.name,
            bound=next(iter(row.parts), ""),
            low_s=step.low,
            value_s=step.value,
            high_s=step.high,
            widened=factor,
            made_at=now,
            usd_per_hour=target.price.usd_per_hour,
            reach=how_to_reach(target),
            rests_on="; ".join(wide.rests_on),
        )
        for row in rows
        if (step := (wide := row.widened(factor)).step_s) and step.low and step.high
        for target in (by_name[row.target],)
    ]


def machine_texts(made: Sequence[Forecast], plan: Plan) -> dict[str, str]:
    """Return predicted time and cost by machine."""
    texts = {}
    for machine in plan.hardware:
        own = [forecast for forecast in made if forecast.hardware == machine.name]
        sums = (sum(f.value_s for f in own), sum(f.low_s for f in own), sum(f.high_s for f in own))
        if own:
            costs = (usd(STEPS * seconds, machine.price.usd_per_hour) for seconds in sums)
            text = f"{format_seconds(Estimate(*sums))} a step, {format_usd(Estimate(*costs))} per {STEPS:,}"
            texts[machine.name] = (
                text if len(plan.cases) == 1 else f"{text}: {len(own)} of {len(plan.cases)} cases"
            )
    return texts


def keep(store: Store, made: Sequence[Forecast]) -> None:
    """Add forecasts to a run's.

    Raises:
        GridbenchError: the file can't be written.
    """
    if made:
        lines = [forecast.model_dump_json() for forecast in (*kept_in(store.folder), *made)]
        try:
            write_text(store.folder / FILE, "\n".join(lines[-MOST_LINES:]) + "\n")
        except WorkloadsError as error:
            raise GridbenchError(f"results: {error}") from None


def kept_in(folder: Path) -> list[Forecast]:
    """Return a run's forecasts, without other lines."""
    lines = []
    with suppress(OSError, UnicodeDecodeError), (folder / FILE).open() as file:
        for line in islice(iter(lambda: file.readline(MOST_CHARACTERS), ""), MOST_LINES):
            with suppress(ValidationError):
                lines.append(Forecast.model_validate_json(line))
    return lines


def kept(results: Path) -> list[Forecast]:
    """Return the newest forecast of each machine and case."""
    every = [forecast for name in islice(runs(results), MOST_RUNS) for forecast in kept_in(results / name)]
    every.sort(key=lambda forecast: forecast.made_at)
    return [*{(forecast.hardware, forecast.case): forecast for forecast in every}.values()]


def scored(results: Path) -> list[tuple[Forecast, float]]:
    """Return forecasts with the mean of the first run that measured them."""
    waiting = {(forecast.hardware, forecast.case): forecast for forecast in kept(results)}
    pairs: dict[tuple[str, str], tuple[Forecast, float]] = {}
    for name in sorted(islice(runs(results), MOST_RUNS)) if waiting else ():
        with suppress(GridbenchError):
            for key, began, seconds in _measured(
                Store(results / name), {hardware for hardware, _ in waiting}
            ):
                if key in waiting and key not in pairs and began > waiting[key].made_at:
                    pairs[key] = waiting[key], seconds
    return [*pairs.values()]


def _measured(store: Store, names: set[str]) -> Iterator[tuple[tuple[str, str], str, float]]:
    machines = [machine for machine in store.plan.hardware if machine.name in names]
    for _, cell in evidence_in(machines, store.records()[0] if machines else []).cells:
        if cell.compute_s:
            began = min(record.started_at for record in cell.usable)
            yield (cell.cell.hardware, cell.cell.case.id), began, statistics.fmean(cell.compute_s)
