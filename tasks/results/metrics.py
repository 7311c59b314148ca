"""The numbers that a cell's commands reported, by metric, over the valid repeats."""

from collections.abc import Sequence
from dataclasses import replace

from tasks.results.format import format_estimate
from tasks.results.repeats import Repeats
from tasks.results.summaries import mean_of, over_repeats
from tasks.results.values import Estimate
from workloads.harness.records.program import Better, MetricValue

LARGEST = 1e150  # a ratio of larger numbers overflows
CALL = MetricValue("time of a call", "s", Better.LOWER, 0.0)


def metrics_of(cell: Repeats) -> list[tuple[MetricValue, ...]]:
    """Return the numbers of each metric of a cell, one for each repeat that has it; the time of a call is the last."""
    by_metric: dict[MetricValue, list[MetricValue]] = {}
    calls = []
    for record in cell.usable:
        for metric in record.metrics:
            by_metric.setdefault(replace(metric, value=0.0), []).append(metric)
        run = record.script.program if record.script else None
        if run and run.metrics and run.call_s:
            calls.append(replace(CALL, value=run.call_s))
    return [tuple(metrics) for metrics in (*by_metric.values(), calls) if metrics]


def has_ratio(metrics: Sequence[MetricValue]) -> bool:
    """Return whether numbers are compared by their ratio: percentages and numbers of 0 or less are not."""
    return all(metric.unit != "%" and 1 / LARGEST < metric.value < LARGEST for metric in metrics)


def mean(metrics: Sequence[MetricValue]) -> Estimate | None:
    """Return the mean of a metric over repeats: geometric for numbers that have ratios."""
    numbers = [metric.value for metric in metrics]
    return over_repeats(numbers) if has_ratio(metrics) else mean_of(numbers)


def mean_text(metrics: Sequence[MetricValue]) -> str:
    """Return the mean of a metric over repeats, with its unit."""
    estimate, unit = mean(metrics), metrics[0].unit
    return format_estimate(estimate, f" {unit}" if unit else "") if estimate else "–"


def reported_text(cell: Repeats) -> str:
    """Return the first number that a cell's command reported; empty if it reported none."""
    first = next(iter(metrics_of(cell)), ())
    return mean_text(first) if first else ""
