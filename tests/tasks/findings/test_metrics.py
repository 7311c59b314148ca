import json

import pytest

from tasks.findings.answer import MOST_WORDS
from tasks.findings.break_even import BreakEvens
from tasks.findings.compare import compare
from tasks.findings.script.metrics import Metrics
from tasks.report.charts.pareto import pareto_panels
from tasks.report.grid import grid_of
from tasks.results.values import RatioVerdict
from tests.tasks.examples.records import failed, machine, record, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.program import Better, MetricValue, ProgramRun
from workloads.harness.records.record import Verdict
from workloads.harness.records.script import OWN, ScriptRun

CASE = Case.of("serve", {"batch": 4}, OWN)
ONE, TWO = machine("one", 1.0), machine("two", 3.0)
TOKENS = ("tokens/s", "tokens/s", Better.HIGHER)


def reported(hardware, *numbers, metric=TOKENS, call_s=60.0, case=CASE):
    runs = [ProgramRun(call_s, metrics=(MetricValue(*metric, number),)) for number in numbers]
    return [
        record(
            1.0,
            case,
            hardware,
            i,
            wall=None,
            work=None,
            script=ScriptRun(("serve",), program=run),
            energy_j=900.0,
        )
        for i, run in enumerate(runs)
    ]


def metrics(*records, machines=(ONE, TWO)):
    comparison = compare([record for side in records for record in side], machines, "one")
    return comparison, comparison.finding(Metrics).cells


def test_a_higher_rate_is_better_and_has_a_price():
    comparison, cells = metrics(reported("one", 100.0, 101.0, 99.0), reported("two", 200.0, 201.0, 199.0))
    assert comparison.answer == (
        "Best tokens/s of serve batch=4: two, 200.0 tokens/s (197.5–202.5), 2.00× (1.94–2.06) as good as one.",
        "Cheapest by tokens/s of serve batch=4: one, $2.78 (2.71–2.85) per million tokens, "
        "1.500× (1.454–1.547) as good as two.",
    )
    assert all(len(line.split()) <= MOST_WORDS for line in comparison.answer)
    _, side = [cell for cell in cells if cell.metric.name == "tokens/s"]
    assert (
        side.ratio.estimate.value == pytest.approx(2, rel=1e-3) and side.ratio.outcome is RatioVerdict.FASTER
    )
    assert side.unit_usd.value == pytest.approx(3 / 3600 / 200, rel=1e-3)
    assert side.unit_j.value == pytest.approx(900 / 60 / 200, rel=1e-3)
    assert side.call_usd.value == pytest.approx(3 * 60 / 3600) and side.call_j.value == pytest.approx(900)
    assert not comparison.details and {summary.compute_s for summary in comparison.summaries} == {None}
    assert not comparison.pairings and comparison.summaries[0].reported == "100.0 tokens/s (97.5–102.5)"


def standings(comparison):
    offers = comparison.finding(Metrics).offers
    return {offer.hardware: (offer.dominated_by, offer.usd.value) for offer in offers}


def test_a_machine_that_another_beats_in_number_and_cost_is_off_the_front():
    dear = machine("dear", 4.0)
    sides = {"one": 100.0, "two": 200.0, "dear": 150.0}
    records = [reported(name, rate, rate, rate * 1.001) for name, rate in sides.items()]
    comparison, _ = metrics(*records, machines=(ONE, TWO, dear))
    assert {name: beaten for name, (beaten, _) in standings(comparison).items()} == {
        **{"one": "", "two": ""},
        "dear": "two",
    }
    (row,) = [row for row in comparison.finding(Metrics).table().rows if row[:3:2] == ("dear", "tokens/s")]
    assert row[-1].text == "beaten by two"
    charts = pareto_panels(grid_of([], comparison))
    assert [panel.title for panel in charts] == ["serve batch=4 · own tokens/s"]
    assert "200.1 tokens/s" in json.dumps(charts[0].chart.to_dict())


def test_any_other_number_stands_against_the_cost_of_a_call():
    metric = ("loss", "", Better.LOWER)
    sides = [
        reported("one", 3.0, 3.01, metric=metric, call_s=30.0),
        reported("two", 2.0, 2.01, metric=metric, call_s=60.0),
    ]
    comparison, _ = metrics(*sides)
    assert standings(comparison) == {
        "one": ("", pytest.approx(30 / 3600)),
        "two": ("", pytest.approx(3 * 60 / 3600)),
    }


def test_the_size_from_which_a_machine_reports_a_better_number_is_a_break_even():
    def at(batch, one, two):
        case = Case.of("serve", {"batch": batch}, OWN)
        return [*reported("one", one, one * 1.001, case=case), *reported("two", two, two * 1.001, case=case)]

    comparison, _ = metrics(at(1, 100.0, 50.0), at(8, 100.0, 200.0), at(64, 100.0, 400.0))
    found = {each.by: each for each in comparison.finding(BreakEvens).break_evens}
    assert (found["time"].below, found["time"].above) == (1, 8) and found["cost"].above == 64
    assert found["time"].sentence == "serve own tokens/s: two is better than one from batch between 1 and 8"


def test_a_lower_latency_is_better():
    metric = ("p99", "ms", Better.LOWER)
    comparison, cells = metrics(
        reported("one", 10.0, 10.1, 9.9, metric=metric), reported("two", 20.0, 20.2, 19.8, metric=metric)
    )
    (side,) = [cell for cell in cells if cell.ratio and cell.metric.name == "p99"]
    assert side.ratio.outcome is RatioVerdict.SLOWER
    assert side.ratio.estimate.value == pytest.approx(0.5, rel=1e-3) and side.unit_usd is None
    assert "Best p99 of serve batch=4: one" in comparison.answer[0]


@pytest.mark.parametrize("better", Better)
def test_percentages_are_compared_by_their_difference(better):
    metric = ("hits", "%", better)
    comparison, cells = metrics(
        reported("one", 90.0, 91.0, 89.0, metric=metric), reported("two", 95.0, 96.0, 94.0, metric=metric)
    )
    (side,) = [cell for cell in cells if cell.ratio and cell.metric.name == "hits"]
    assert side.row()[7] is None and side.difference.value == pytest.approx(5.0)
    assert 0 < side.difference.low < 5 < side.difference.high
    assert (side.ratio.outcome is RatioVerdict.FASTER) is (better is Better.HIGHER)
    best = "two" if better is Better.HIGHER else "one"
    assert comparison.answer[0].startswith(f"Best hits of serve batch=4: {best}, 9")
    assert not any("Cheapest" in line for line in comparison.answer)


def test_numbers_of_any_sign_are_compared():
    metric = ("balance", "", Better.HIGHER)
    _, cells = metrics(
        reported("one", -1.0, 0.0, 1.0, metric=metric), reported("two", 0.0, 0.0, 0.0, metric=metric)
    )
    (side,) = [cell for cell in cells if cell.ratio and cell.metric.name == "balance"]
    assert side.ratio.outcome is RatioVerdict.UNDECIDED and side.difference.value == pytest.approx(0.0)


def test_equal_machines_and_single_repeats_are_undecided():
    comparison, _ = metrics(reported("one", 100.0, 110.0, 90.0), reported("two", 101.0, 111.0, 91.0))
    assert "undecided between two and one" in comparison.answer[0]
    comparison, _ = metrics(reported("one", 100.0), reported("two", 200.0))
    assert "undecided between" in comparison.answer[0]


def test_a_time_and_a_told_number_each_have_their_line():
    job = Case.of("matmul", {"n": 100})
    times = [*repeats([1.0, 1.01, 0.99], job, "one"), *repeats([0.5, 0.51, 0.49], job, "two")]
    comparison, _ = metrics(reported("one", 100.0, 101.0, 99.0), reported("two", 200.0, 201.0, 199.0), times)
    assert comparison.answer[0].startswith("Best tokens/s") and "Fastest: two" in comparison.answer[2]
    assert [pairing.case for pairing in comparison.pairings] == [job]


def test_a_refused_command_is_shown_with_its_reason():
    bad = [failed(Verdict.WRONG, "metric tokens/s is not in the output", CASE, "two")]
    comparison, cells = metrics(reported("one", 100.0, 101.0, 99.0), bad)
    assert {cell.hardware for cell in cells} == {"one"}
    (refused,) = [summary for summary in comparison.summaries if not summary.ok_repeats]
    assert refused.reasons == ("metric tokens/s is not in the output",)
