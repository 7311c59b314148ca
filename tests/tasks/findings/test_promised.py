from dataclasses import replace

import pytest

from tasks.findings.answer import MOST_WORDS
from tasks.findings.compare import compare
from tasks.findings.script.promised import PromisedRates
from tasks.report.charts.promised import promised_panels
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tests.tasks.examples.records import machine, record
from tests.tasks.examples.reports import RUN
from workloads.harness.records.case import Case
from workloads.harness.records.program import Better, LoadPoint, MetricValue, ProgramRun, PromisedRate
from workloads.harness.records.script import OWN, ScriptRun

CASE = Case.of("vllm", {}, OWN)
LATE = "the load generator was 50.0 ms late: this machine's CPU is too busy"


def search(rate, low, high, reason=""):
    points = (
        LoadPoint(rate, 100 * rate, "kept", (0.4,)),
        LoadPoint(2 * rate, 0.0, "undecided", (None,), reason),
    )
    return PromisedRate(("ttft_p99_ms=500",), (0.5,), rate, low, high, 100 * rate, points)


def served(hardware, *searches):
    return [
        record(
            *(1.0, CASE, hardware, number),
            wall=None,
            work=None,
            script=ScriptRun(
                ("-m", "workloads.serving"),
                program=ProgramRun(
                    60.0,
                    metrics=(MetricValue("requests/s", "requests/s", Better.HIGHER, each.requests_per_s),),
                    promised=each,
                ),
            ),
        )
        for number, each in enumerate(searches)
    ]


def found(*records, usd_per_hour=(2.0, 3.0)):
    machines = [machine(name, usd) for name, usd in zip(("one", "two"), usd_per_hour, strict=True)]
    comparison = compare([each for side in records for each in side], machines, "one")
    assert all(len(line.split()) <= MOST_WORDS for line in comparison.answer)
    return comparison, comparison.finding(PromisedRates).cells


def test_the_cheapest_machine_has_its_price_and_its_rate():
    one = [search(rate, 9.6, 10.5) for rate in (10.0, 10.1, 9.9)]
    two = [search(rate, 29.0, 31.5) for rate in (30.0, 30.3, 29.7)]
    comparison, cells = found(served("one", *one), served("two", *two))
    assert comparison.answer[0] == (
        "Cheapest at the promise: two, 0.278 USD (0.264–0.289) per million output tokens at 30.0 requests a second."
    )
    rate = cells[1].requests_per_s
    assert (
        rate.low < 29.0
        and rate.high > 31.5
        and cells[1].million_usd.value == pytest.approx(3 / 3600 / 3000 * 1e6, rel=1e-3)
    )
    assert not any("Best" in line or "Cheapest by" in line for line in comparison.answer)


def test_machines_whose_intervals_overlap_are_undecided():
    one = [search(rate, 9.0, 11.0) for rate in (10.0, 10.1, 9.9)]
    two = [search(rate, 14.0, 16.5) for rate in (15.5, 15.6, 15.4)]
    comparison, _ = found(served("one", *one), served("two", *two))
    assert comparison.answer[0] == (
        "Cheapest at the promise: undecided between two at 0.54 USD and one at 0.56 USD per million output tokens."
    )


def test_a_single_search_has_the_interval_of_its_rates_or_no_interval():
    comparison, cells = found(served("one", search(10.0, 9.5, 10.5)))
    assert cells[0].requests_per_s.low == pytest.approx(9.5, rel=0.01)
    assert comparison.answer[0].startswith("At the promise: one, 0.556 USD (0.52")
    comparison, cells = found(served("one", search(10.0, 0.0, None, LATE)))
    assert cells[0].requests_per_s.low is None and comparison.answer[0].startswith(
        "At the promise: one, ~0.56 USD per"
    )
    assert f"The rate of vllm on one can be larger: {LATE}." in comparison.details


def test_machines_without_a_price_are_compared_by_their_rates():
    one = [search(rate, 9.6, 10.5) for rate in (10.0, 10.1, 9.9)]
    comparison, cells = found(
        served("one", *one), served("two", search(0.0, 0.0, 0.5)), usd_per_hour=(0.0, 0.0)
    )
    assert comparison.answer[0].startswith("Most at the promise: one, 10.00 requests a second (9.5")
    assert cells[1].requests_per_s is None and cells[1].row()[-1] == "no rate keeps it"
    assert "two keeps ttft_p99_ms=500 of vllm at no rate." in comparison.details


@pytest.mark.parametrize("rate", [-1.0, 1e-200, 1e200])
def test_an_impossible_rate_makes_no_cell(rate):
    _, cells = found(served("one", search(rate, rate, rate)))
    assert not cells


def test_a_promise_without_a_limit_makes_no_cell():
    _, cells = found(served("one", replace(search(10.0, 9.0, 11.0), limits_s=())))
    assert not cells


def test_throughput_is_drawn_against_latency_with_the_promise():
    records = [*served("one", search(10.0, 9.6, 10.5)), *served("two", search(30.0, 29.0, 31.5))]
    comparison, _ = found(records)
    grid = grid_of(records, comparison)
    (panel,) = promised_panels(grid)
    rows = [row for table in panel.spec()["datasets"].values() for row in table]
    assert panel.title == "vllm, ttft_p99_ms=500" and {"seconds": 0.5, "name": "promise"} in rows
    assert [(row["hardware"], row["tokens"], row["seconds"]) for row in rows if "tokens" in row] == [
        ("one", 1000.0, 0.4),
        ("two", 3000.0, 0.4),
    ]
    page = report_html(records, grid, RUN)
    assert "Throughput against latency" in page and "Servers at a promised latency" in page
