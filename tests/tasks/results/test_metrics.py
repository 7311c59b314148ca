import math

import pytest

from tasks.regressions.change import share_in_words
from tasks.results.metrics import (
    change_text,
    cost_of,
    label_of,
    measured_case,
    metric_in,
    number_text,
    outcome_word,
    watched_cases,
)
from tasks.results.speedup import speedup
from tasks.results.values import Estimate
from workloads.harness.records.case import Case
from workloads.harness.records.program import Program, metric_of
from workloads.harness.records.script import OWN, Script

TEXTS = {
    "tokens/s": "tokens/s",
    "p99 (ms)": "p99 (ms)",
    "p99 (ms, lower)": "p99 (ms)",
    "loss (lower)": "loss (lower)",
    "hits (%, higher)": "hits (%, higher)",
    "bus bandwidth (GB/s)": "bus bandwidth (GB/s)",
}
CASE = Case.of("serve", {"batch": 4}, OWN)


@pytest.mark.parametrize(("text", "label"), TEXTS.items())
def test_the_id_of_a_metric_says_its_unit_and_direction(text, label):
    metric = metric_of(f"{text}: x ([0-9]+)")
    (case,) = watched_cases(CASE, Script(("serve",), program=Program(metrics=(metric,))))
    assert (case, label_of(metric), measured_case(case)) == (f"serve/batch=4/own/{label}", label, CASE.id)
    read = metric_in(case)
    assert (read.name, read.unit, read.better) == (metric.name, metric.unit, metric.better)


def test_the_id_of_a_case_is_of_no_metric():
    assert watched_cases(CASE, None) == [CASE.id] and metric_in(CASE.id) is None
    assert metric_in("matmul/n=1/fp32") is None and measured_case("matmul/n=1/fp32") == "matmul/n=1/fp32"


@pytest.mark.parametrize(
    ("text", "number", "cost", "shown", "worse"),
    [
        ("tokens/s", 200.0, 0.005, "200.0 tokens/s", "9.1 % lower (worse)"),
        ("p99 (ms)", 12.0, 0.012, "12.0 ms", "10.0 % slower"),
        ("mem (MB)", 50.0, 50.0, "50.00 MB", "10.0 % higher (worse)"),
        ("hits (%, higher)", 95.0, math.exp(-0.95), "95.00 %", "9.5 points lower (worse)"),
        ("misses (%, lower)", 5.0, math.exp(0.05), "5.000 %", "9.5 points higher (worse)"),
        ("life (h, higher)", 4.0, 0.25, "4.000 h", "9.1 % lower (worse)"),
    ],
)
def test_a_cost_is_shown_as_the_number_that_it_is_of(text, number, cost, shown, worse):
    metric = metric_of(f"{text}: (x)")
    assert cost_of(metric, number) == pytest.approx(cost)
    case = f"{CASE.id}/{label_of(metric)}"
    assert number_text(case, cost) == shown
    assert share_in_words(0.1, case) == worse


def test_an_interval_keeps_its_order():
    assert number_text(f"{CASE.id}/tokens/s", Estimate(0.005, 0.004, 0.00625)) == "200 tokens/s (160–250)"


def test_numbers_without_a_ratio_have_no_cost():
    assert cost_of(metric_of("balance (higher): (x)"), -1.0) is None
    assert cost_of(metric_of("balance (higher): (x)"), 0.0) is None


def test_points_and_ratios_have_their_words():
    case = f"{CASE.id}/hits (%, higher)"
    metric = metric_in(case)
    before, now = (
        [cost_of(metric, number) for number in side] for side in ([90.0, 90.1, 89.9], [95.0, 95.1, 94.9])
    )
    change = speedup(before, now)
    assert change_text(case, change).startswith("5.0") and " points" in change_text(case, change)
    assert outcome_word(case, change) == "better" and outcome_word("matmul/n=1/fp32", change) == "faster"
