"""Numbers that commands reported, over valid repeats."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tasks.results.format import format_estimate, format_ratio, format_seconds, significant
from tasks.results.repeats import Repeats
from tasks.results.summaries import mean_of, over_repeats
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.records.case import EAGER, Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import (
    TIMES,
    Better,
    Metric,
    MetricValue,
    Number,
    PromisedRate,
    metric_of,
)
from workloads.harness.records.record import Record
from workloads.harness.records.script import OWN, Script

WORDS = {RatioVerdict.FASTER: "better", RatioVerdict.SLOWER: "worse", RatioVerdict.UNDECIDED: "undecided"}
MOST_PERCENT = 10_000.0
MOST_PER_S = 1e9  # requests, and tokens, of a server
LARGEST = 1e150  # a ratio of larger numbers overflows
CALL = MetricValue("time of a call", "s", Better.LOWER, 0.0)


def metrics_of(cell: Repeats) -> list[tuple[MetricValue, ...]]:
    """Return each metric by repeat; the time of a call is last."""
    by_metric: dict[MetricValue, list[MetricValue]] = {}
    calls = []
    for record in cell.usable:
        for metric in record.metrics:
            by_metric.setdefault(replace(metric, value=0.0), []).append(metric)
        if record.metrics and (seconds := call_s(record)):
            calls.append(replace(CALL, value=seconds))
    return [tuple(metrics) for metrics in (*by_metric.values(), calls) if metrics]


def promised_of(cell: Repeats) -> tuple[PromisedRate, ...]:
    runs = (record.script.program for record in cell.usable if record.script)
    return tuple(run.promised for run in runs if run and run.promised and _is_possible(run.promised))


def _is_possible(search: PromisedRate) -> bool:
    """Return False for a negative number, or one too small or large for any server."""
    numbers = [search.requests_per_s, search.output_tokens_per_s, search.low, search.high or 0.0]
    numbers += [
        number for point in search.points for number in (point.output_tokens_per_s, *point.seconds) if number
    ]
    limits_s = [*search.limits_s, 0.0][: len(search.promises)]
    return all(number == 0 or 1 / MOST_PER_S < number < MOST_PER_S for number in numbers) and all(
        1 / MOST_PER_S < limit_s < MOST_PER_S for limit_s in limits_s
    )


def has_ratio(metrics: Sequence[MetricValue]) -> bool:
    """Return False for percentages and numbers of 0 or less."""
    return all(metric.unit != "%" and 1 / LARGEST < metric.value < LARGEST for metric in metrics)


def mean(metrics: Sequence[MetricValue]) -> Estimate | None:
    """Return the mean over repeats, geometric if the metric has ratios."""
    numbers = [metric.value for metric in metrics]
    return over_repeats(numbers) if has_ratio(metrics) else mean_of(numbers)


def mean_text(metrics: Sequence[MetricValue]) -> str:
    estimate, unit = mean(metrics), metrics[0].unit
    return format_estimate(estimate, f" {unit}" if unit else "") if estimate else "–"


def reported_text(cell: Repeats) -> str:
    """Return a command's first number; else empty."""
    first = next(iter(metrics_of(cell)), ())
    return mean_text(first) if first else ""


def label_of(metric: Number) -> str:
    """Return such as `p99 (ms)`."""
    for terms in ((), (metric.unit,), (metric.better.value,), (metric.unit, metric.better.value)):
        text = f"{metric.name} ({', '.join(terms)})" if any(terms) else metric.name
        with suppress(WorkloadsError):
            read = metric_of(f"{text}: (x)")
            if (read.name, read.unit, read.better) == (metric.name, metric.unit, metric.better):
                return text
    return f"{metric.name} ({metric.unit}, {metric.better})"


def series_case(case: str, metric: Number) -> str:
    """Return such as `serve/batch=4/own/tokens/s`."""
    return f"{case}/{label_of(metric)}"


def watched_cases(case: Case, script: Script | None) -> list[str]:
    """Return ids of a command's metrics, or else of the case."""
    metrics = script.program.metrics if script and script.program else ()
    return [series_case(case.id, metric) for metric in metrics] or [case.id]


def measured_case(case: str) -> str:
    """Return the measured case's id, also for a metric's."""
    before, own, _ = case.partition(f"/{OWN}/")
    return f"{before}/{OWN}" if own else case


def metric_in(case: str) -> Metric | None:
    """Return None for the id of a case."""
    label = case.partition(f"/{OWN}/")[2]
    try:
        return metric_of(f"{label}: (x)") if label else None
    except WorkloadsError:
        return None


def cost_of(metric: Number, number: float) -> float | None:
    """Return a positive number, smaller is better: seconds, or seconds per thing of a rate.

    A percentage is the exponential of its hundredth, so that log changes are differences.
    """
    sign = -1 if metric.better is Better.HIGHER else 1
    if metric.unit == "%":
        return math.exp(sign * number / 100) if abs(number) <= MOST_PERCENT else None
    if not 1 / LARGEST < number < LARGEST:
        return None
    return (TIMES[metric.unit] if metric.is_time else 1.0) * number**sign


def number_text(case: str, cost: Estimate | float | None) -> str:
    """Return a time, or a metric's number with its unit."""
    metric = metric_in(case)
    if metric is None or cost is None or metric.is_time:
        return format_seconds(cost)
    unit = f" {metric.unit}" if metric.unit else ""
    estimate = shown(case, cost if isinstance(cost, Estimate) else Estimate(cost))
    if estimate is None or isinstance(cost, Estimate):
        return format_estimate(estimate, unit) if estimate else "–"
    return f"{significant(estimate.value, 4)}{unit}"


def shown(case: str, cost: Estimate | None) -> Estimate | None:
    """Return a metric's number for its cost; a time in seconds."""
    metric = metric_in(case)
    if metric is None or cost is None:
        return cost
    return cost.mapped(partial(_number_of, metric))


def _number_of(metric: Metric, cost: float) -> float:
    sign = -1 if metric.better is Better.HIGHER else 1
    if metric.unit == "%":
        return sign * 100 * math.log(cost)
    return (cost / (TIMES[metric.unit] if metric.is_time else 1.0)) ** sign


def change_text(case: str, change: Ratio) -> str:
    """Return a ratio, or points of a percentage."""
    metric = metric_in(case)
    return (
        format_ratio(change) if metric is None or metric.unit != "%" else points_text(metric, change.estimate)
    )


def points_text(metric: Number, change: Estimate) -> str:
    """Return a percentage's change for the ratio of costs, before over after."""
    sign = 1 if metric.better is Better.HIGHER else -1
    return format_estimate(change.mapped(lambda ratio: sign * 100 * math.log(ratio)), " points")


def outcome_word(case: str, change: Ratio) -> str:
    """Return `faster` or `slower` of a time, else `better` or `worse`."""
    metric = metric_in(case)
    return str(change.outcome) if metric is None or metric.is_time else WORDS[change.outcome]


def viewed(cell: Repeats) -> list[Repeats]:
    """Return a cell for each reported metric, with costs as times, or itself."""
    labels = dict.fromkeys(replace(metric, value=0.0) for record in cell.usable for metric in record.metrics)
    return [
        replace(
            cell,
            cell=replace(cell.cell, case=case),
            records=tuple(_view(record, case, label) for record in cell.records),
            usable=tuple(view for record in cell.usable if (view := _view(record, case, label)).wall),
        )
        for label in labels
        if (case := replace(cell.cell.case, mode=label_of(label)))
    ] or [cell]


def measured_of(case: Case) -> Case:
    return replace(case, mode=EAGER) if metric_in(case.id) else case


def is_of_time(metric: Number) -> bool:
    """Return whether a price makes it a cost."""
    return metric.is_time or is_rate(metric)


def is_rate(metric: Number) -> bool:
    """Return whether it is per second."""
    return bool(metric.thing) and metric.better is Better.HIGHER


def one_number(cells: Iterable[Repeats]) -> list[Repeats]:
    """Return a time, or the first reported number, of each."""
    return [viewed(cell)[0] for cell in cells]


def call_s(record: Record) -> float | None:
    """Return None if no valid call ended."""
    run = record.script.program if record.script else None
    return run.call_s if run else None


def called(cell: Repeats) -> Repeats:
    """Return a command's cell with the times of its calls."""
    timed = (_taking(record, call_s(record)) for record in cell.usable)
    return replace(cell, usable=tuple(record for record in timed if record.wall))


def _view(record: Record, case: Case, metric: MetricValue) -> Record:
    numbers = [each.value for each in record.metrics if replace(each, value=0.0) == metric]
    return _taking(replace(record, case=case), cost_of(metric, numbers[0]) if numbers else None)


def _taking(record: Record, seconds: float | None) -> Record:
    return replace(record, wall=summarise((seconds,), 1) if seconds else None)
