import json
import re
from dataclasses import replace

import pytest

from tasks.findings.bills import Bill, Bills
from tasks.findings.break_even import BreakEven, BreakEvens
from tasks.findings.offers import Offer, Offers, passes_of, standing
from tasks.report.charts.cold_start import waterfall_panels
from tasks.report.charts.monitor import MEMORY, POWER, UTILISATION, monitor_panels, series
from tasks.report.charts.pareto import cases_left, pareto_panels
from tasks.report.charts.speedup import COST, speedup_panels
from tasks.report.charts.time_by_size import break_even_ends
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.report.html.tables import OTHER, finding_sections
from tasks.results.values import Estimate
from tests.tasks.examples.reports import BASELINE, CASES, RUN, bad_record, comparison, good_record
from workloads.harness.records.record import Verdict

FAST, SLOW = Estimate(1.0, 0.9, 1.1), Estimate(3.0, 2.9, 3.1)
CHEAP, DEAR = Estimate(2e-6, 1.9e-6, 2.1e-6), Estimate(6e-6, 5.8e-6, 6.2e-6)
OFFERS = (
    Offer("aws-g5.8xlarge", "listed", None, FAST, DEAR),
    Offer("aws-g5.8xlarge", "spot", None, FAST, CHEAP, energy_j=120.0),
    Offer("gke-l4", "listed", None, SLOW, CHEAP, tied_with=(BASELINE,)),
    Offer(BASELINE, "listed", None, Estimate(9.0), DEAR, dominated_by="gke-l4"),
)


def break_even(below, above, by="time", workload="gcn", parameter="nodes", fixed=()):
    sentence = f"gcn fp32: gke-l4 is faster than {BASELINE} from nodes between {below} and {above}"
    return BreakEven("gke-l4", BASELINE, workload, "fp32", parameter, fixed, by, below, above, sentence)


def grid_with(made, *findings):
    return grid_of(made, replace(comparison(made), findings=findings))


def shown(made, finding):
    return finding_sections(grid_with(made, finding))[finding.section][0]


def rows_of(panel):
    return [row for table in panel.spec()["datasets"].values() for row in table]


def test_an_offer_is_a_point_with_both_intervals_and_its_standing(made):
    panel = pareto_panels(grid_with(made, Offers(OFFERS)))[0]
    rows = {(row["hardware"], row["purchase"]): row for row in rows_of(panel)}
    assert len(rows) == 4 and panel.title == "The suite"
    spot = rows["aws-g5.8xlarge", "spot"]
    assert (spot["x_low"], spot["x_high"], spot["y"]) == (0.9, 1.1, 2.0) and spot["front"]
    assert rows[BASELINE, "listed"]["x_low"] is None and not rows[BASELINE, "listed"]["front"]
    assert standing(OFFERS[2]) == f"on the Pareto front, tied with {BASELINE}"
    assert standing(OFFERS[3]) == "beaten by gke-l4"


def test_money_is_for_so_many_passes_that_it_is_more_than_a_cent():
    assert passes_of(OFFERS) == 1_000_000 and passes_of([]) == 1_000_000
    assert passes_of([replace(OFFERS[0], usd=Estimate(0.5))]) == 1


def test_one_machine_has_no_pareto_panel(made):
    assert pareto_panels(grid_with(made, Offers(OFFERS[:2]))) == []
    assert "spot" in [cell["text"] for cell in shown(made, Offers(OFFERS[:2]))["rows"][0]]


def test_cases_beyond_the_drawn_ones_are_counted(made):
    offers = tuple(replace(offer, case=case) for case in CASES for offer in OFFERS)
    grid = grid_with(made, Offers(offers))
    assert len(pareto_panels(grid)) == 5 and cases_left(grid) == len(CASES) - 5
    page = report_html(made, grid_of(made, grid.comparison), RUN)
    assert "4 more cases with two offers are in benchmark_results.json" in page


def test_a_bill_has_every_second_in_its_bar_and_the_longest_bar_is_whole(made):
    parts = tuple((f"part {i}", float(i + 1)) for i in range(12))
    bills = (
        Bill("gke-l4", parts, 78.0, 0.5, 0.1, ("all", "one")),
        Bill(BASELINE, parts[:3], 6.0, 1.0, 0.2, ("all",)),
    )
    table = shown(made, Bills(bills))
    assert table["parts"][-1] == OTHER and len(table["parts"]) == 8
    shares = [sum(segment["share"] for segment in row[-1]["bar"]) for row in table["rows"]]
    assert shares == pytest.approx([50.0, 100.0], abs=0.1) and "by USD" in table["lead"]
    assert table["notes"] == ("All machines: all.", "gke-l4: one.")
    place = table["columns"].index("Share of the bill")
    assert [row[place]["text"] for row in table["rows"]] == ["20 %", "20 %"]


def test_bills_without_a_price_are_by_time_and_have_no_share(made):
    bills = (Bill("gke-l4", (("import", 2.0),), 2.0, None, None), Bill(BASELINE, (), 0.0, 1.0, 0.5))
    table = shown(made, Bills(bills))
    place = table["columns"].index("Share of the bill")
    assert "by time" in table["lead"] and table["rows"][0][place]["text"] == "–"
    assert table["rows"][1][-1]["bar"] == []


def test_a_break_even_lies_between_the_work_of_its_two_sizes(made):
    by_cost = break_even(2708, 20000, by="cost")
    found = (break_even(2708, 20000), by_cost, break_even(None, 2708), break_even(1, 20000))
    grid = grid_with(made, BreakEvens(found))
    group = next(group for group in grid.groups if group.workload == "gcn")
    ends = break_even_ends(grid, group)
    assert [(start, end) for _, start, end in ends] == [(group.work[CASES[6]], group.work[CASES[7]])]
    page = report_html(made, grid_of(made, grid.comparison), RUN)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    charts = json.dumps([spec for name, spec in data["charts"].items() if name.startswith("time-")])
    assert charts.count('"break-even"') >= 1 and "from nodes between 2708 and 20000" in page


def test_cost_bars_are_cheaper_or_dearer_or_have_no_price(made):
    panels = speedup_panels(grid_with(made), by=COST)
    rows = [row for panel in panels for row in rows_of(panel) if "outcome" in row]
    assert {"cheaper", "dearer"} <= {row["outcome"] for row in rows if row["value"]}
    words = {row["outcome"] for row in rows if row["hardware"] == "gke-l4"}
    assert words == {"no price", "out of memory", "wrong"}


def test_a_waterfall_goes_on_where_the_phase_before_ended(made):
    panels = waterfall_panels(made, grid_with(made))
    assert len(panels) == 3
    rows = rows_of(panels[1])
    assert [row["phase"] for row in rows] == ["process start", "import", "context", "build", "first call"]
    assert rows[0]["start"] == 0
    assert [row["start"] for row in rows[1:]] == pytest.approx([row["end"] for row in rows[:-1]], rel=1e-5)


def test_utilisation_is_the_gpus_own_or_that_of_the_threads_in_use(made):
    gpu, cpu = good_record("gke-l4", CASES[0], 0), good_record(BASELINE, CASES[0], 0)
    assert [v for _, v in series(gpu, UTILISATION)] == [100 * v for v in gpu.monitor["gpu_utilisation_share"]]
    assert max(v for _, v in series(cpu, UTILISATION)) <= 100 and series(cpu, POWER) == []
    assert series(cpu, MEMORY)[0][1] == pytest.approx(cpu.monitor["rss_bytes"][0] / 2**30)


def test_a_panel_a_quantity_of_the_largest_case_with_a_line_a_machine(made):
    panels = monitor_panels(made, grid_with(made))
    assert [p.title for p in panels[:2]] == [f"matmul · fp32, n=10000: {q}" for q in (UTILISATION, MEMORY)]
    assert {row["hardware"] for row in rows_of(panels[0])} == {BASELINE, "aws-g5.8xlarge"}
    assert {row["window"] for row in rows_of(panels[0])} == {"samples", "around"}
    assert monitor_panels([replace(r, monitor={}) for r in made], grid_with(made)) == []


def test_observations_are_listed_up_to_a_limit_and_the_others_are_counted(made):
    many = tuple(f"Scale matters {i}." for i in range(60))
    page = report_html(made, grid_of(made, replace(comparison(made), observations=many)), RUN)
    assert page.index('id="h-findings"') < page.index("Scale matters 0.")
    assert "Scale matters 0." in page and "Scale matters 59." not in page and "more are in" in page


def test_programs_find_offers_break_evens_bills_and_observations_in_the_json(made):
    bill = Bill("gke-l4", (("import", 2.0), ("samples", 3.0)), 5.0, None, None)
    offers = Offers((*OFFERS, replace(OFFERS[0], case=CASES[0])))
    break_evens = BreakEvens((break_even(2708, 20000, fixed=(("k", 2),)),))
    found = replace(comparison(made), findings=(offers, break_evens, Bills((bill,))))
    read = json.loads(json.dumps(benchmark_json(made, grid_of(made, found), RUN), allow_nan=False))
    assert [offer["case"] for offer in read["offers"]] == [None] * 4 + [CASES[0].id]
    assert read["offers"][1]["usd"] == {"value": CHEAP.value, "low": CHEAP.low, "high": CHEAP.high}
    assert (read["crossings"][0]["above"], read["crossings"][0]["fixed"]) == (20000, {"k": 2})
    assert read["bills"][0]["parts_s"] == {"import": 2.0, "samples": 3.0}
    assert read["observations"] == list(found.observations)


def test_a_run_without_findings_has_no_empty_sections():
    broken = [bad_record(BASELINE, CASES[0], 0, Verdict.CRASHED, "exit status 139")]
    page = report_html(broken, grid_of(broken, replace(comparison(broken), findings=())), RUN)
    assert 'id="money"' not in page and 'id="monitor"' not in page and 'href="#money"' not in page
