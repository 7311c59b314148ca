import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from tasks.findings.compare import compare
from tasks.report import write
from tasks.report.artifacts import speedup_rows
from tasks.report.charts.theme import DARK_PHASES, DARK_SERIES, LIGHT_PHASES, LIGHT_SERIES
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html import page as html_page
from tasks.report.html import records_table
from tasks.report.html.page import report_html
from tasks.report.html.templates import TEMPLATES, environment
from tasks.report.text.comparison import full_text
from tasks.report.write import write_report
from tasks.results.comparison import Comparison
from tasks.results.model import Machine
from tasks.store.frames import results_table
from tests.tasks.examples.reports import (
    BASELINE,
    CASES,
    HOSTILE,
    MACHINES,
    RUN,
    arranged,
    comparison,
    good_record,
    nothing_ok,
)
from tests.tasks.report.report_text import without_scripts, words
from workloads.harness.records.record import Verdict


@pytest.fixture(scope="module")
def page(made):
    return report_html(made, grid_of(made, comparison(made)), RUN)


def test_the_answer_comes_first(page, made):
    order = [page.index(f'<section id="{name}"') for name in ("answer", "comparison", "machines", "records")]
    assert order == sorted(order)
    head = words(page[order[0] : order[1]])
    assert comparison(made).answer[0] in head and "25 of 27 cells count" in head


def test_machines_have_prices_and_say_where_they_come_from(page):
    text = words(page)
    assert "1.008 USD/h on-demand, us-east-1, 2026-07-20" in text
    assert "no price stated" in text


def test_verdict_words_and_why_something_is_undecided(page):
    text = words(page)
    assert all(word in text for word in ("faster", "slower", "undecided", "cheaper", "dearer"))
    assert "one repeat has no interval" in text and "spans 1" in text


def test_every_cell_that_is_not_ok_is_there_with_its_reason(page):
    section = page[page.index('id="troubles"') : page.index('id="pictures"')]
    assert "out of memory" in section and "22.3 GiB of 22.5 GiB" in section and "wrong" in section


def test_numbers_that_do_not_count_are_grey_and_have_their_reason():
    hot = {"verdict": Verdict.THROTTLED, "reasons": ("clock fell",)}
    throttled = [replace(good_record(BASELINE, CASES[0], i), **hot) for i in (0, 1)]
    page = report_html(throttled, grid_of(throttled, comparison(throttled)), RUN)
    assert page.count('class="void"') == 2
    assert re.search(r'class="number void"[^>]*>[\d.]+ ms, [\d.]+ ms<', page)
    assert "clock fell" in words(page)


def test_a_copied_row_is_shown_as_impossible_with_its_number():
    one = good_record("gke-l4", CASES[0], 0)
    copied = [one, replace(one, case=CASES[1])]
    page = report_html(copied, grid_of(copied, compare(copied, MACHINES, BASELINE)), RUN)
    assert "impossible" in page and "copy" in words(page)


def test_repeats_that_do_not_count_are_listed_and_the_others_still_count(made):
    hot = replace(made[0], verdict=Verdict.THROTTLED, reasons=("clock fell",))
    page = report_html([hot, *made[1:]], grid_of([hot, *made[1:]], comparison([hot, *made[1:]])), RUN)
    section = words(page[page.index('id="troubles"') : page.index('id="pictures"')])
    assert "throttled 2 of 3" in section and "clock fell" in section
    assert "25 of 27 cells count" in words(page)


def test_scaling_has_its_band_and_its_explanation():
    machines = (Machine("g5-1", 1.0, "stated assumption", 1), Machine("g5-8", 9.0, "stated assumption", 8))
    one = [replace(good_record("aws-g5.8xlarge", CASES[2], i), hardware="g5-1") for i in range(3)]
    eight = [replace(good_record("gke-l4", CASES[1], i), hardware="g5-8", case=CASES[2]) for i in range(3)]
    eight = [replace(record, environment=one[0].environment, work=one[0].work) for record in eight]
    page = words(report_html(one + eight, grid_of(one + eight, compare(one + eight, machines, "g5-1")), RUN))
    assert re.search(r"scaling [a-z ]+, strong \d+\.\d* % \(", page)
    assert "Strong scaling: the same step on more devices" in page


def test_the_page_has_the_colours_of_the_charts():
    style = (TEMPLATES / "report.css").read_text()
    light, dark = style.split("prefers-color-scheme: dark", 1)
    for text, series, phases in ((light, LIGHT_SERIES, LIGHT_PHASES), (dark, DARK_SERIES, DARK_PHASES)):
        for letter, colours in (("s", series), ("p", phases)):
            for index, colour in enumerate(colours):
                assert f"--{letter}{index}: {colour};" in text


def test_hostile_text_is_escaped_everywhere(page):
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in without_scripts(page)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert HOSTILE in [reason for record in json.loads(data[1])["records"] for reason in record["reasons"]]


def test_a_long_id_breaks_between_its_parts_and_is_escaped():
    whole = environment().filters["whole"]
    assert whole("llm_decode/millions=1236,batch=1,context=512/fp32 on") == (
        "llm_decode/<wbr>millions=1236,<wbr>batch=1,<wbr>context=512/<wbr>fp32 on"
    )
    assert whole("<b>" + 40 * "x" + "/y,z") == f"&lt;b&gt;{40 * 'x'}/<wbr>y,<wbr>z"
    assert whole("a,b/c aws-g5.8xlarge") == 'a,b/c <span class="whole">aws-g5.8xlarge</span>'


def test_hostile_names_are_escaped_too():
    name = '"><img src=x onerror=alert(1)>'
    names = {"hardware": name, "environment": {name: name}}
    made = [replace(good_record(BASELINE, CASES[0], i), **names) for i in (0, 1)]
    machines = (replace(MACHINES[0], name=name, price_note=name),)
    page = report_html(made, grid_of(made, compare(made, machines, name)), replace(RUN, run=name, suite=name))
    assert "<img" not in without_scripts(page) and "&lt;img" in page


def test_the_page_forbids_itself_any_request(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src &#39;none&#39;") and "script-src &#39;sha256-" in policy
    assert not re.search(r'(?:src|href)="(?!#|data:)', without_scripts(page))


def test_headings_go_down_one_level_at_a_time_and_ids_are_unique(page):
    levels = [int(level) for level in re.findall(r"<h([1-6])", without_scripts(page))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = re.findall(r'\bid="([^"]+)"', without_scripts(page))
    assert len(ids) == len(set(ids))


def test_samples_are_in_the_page_in_six_digits(page, made):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    first = made[0].wall.samples_s
    assert data["records"][0]["samples"] == [float(f"{sample:.6g}") for sample in first]
    assert data["environments"][made[0].environment_id]["packages.numpy"] == "2.3.1"


def test_environments_that_differ_are_apart_from_those_that_do_not(made):
    found = records_table.environments(made)
    assert {"torch", "driver", "cpu_model"} <= {key for key, _ in found["different"]}
    assert {"packages.numpy", "packages.psutil"} == {key for key, _ in found["same"]}
    assert records_table.environments([])["columns"] == []


@pytest.mark.server
def test_a_great_many_records_stay_below_five_megabytes(monkeypatch):
    many = [good_record(hw.name, case, i, samples=60) for hw in MACHINES for case in CASES for i in range(80)]
    page = report_html(many, grid_of(many, comparison(many)), RUN)
    assert len(page.encode()) < 5e6
    assert f"lists {records_table.MOST_RECORDS} of {len(many)} records" in words(page)


def test_a_report_without_a_valid_cell_gives_the_reasons():
    page = words(report_html(*arranged(*nothing_ok()), RUN))
    assert "no cell of this run counts" in page and "exit status 139" in page


def test_an_empty_run_makes_a_page():
    page = words(report_html([], grid_of([], Comparison(BASELINE, (), (), (), (), ())), RUN))
    assert "Nothing in this run can be compared" in page and "Nothing was measured" in page


@pytest.mark.server
def test_all_files_are_written_whole(made, tmp_path):
    path = write_report(tmp_path / "new" / "run", made, comparison(made), RUN)
    assert path.name == "report.html"
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "benchmark_results.json", "comparison.csv", "comparison.txt", "findings", "report.html", "results.parquet",
        "speedup.png", "time_by_size.png",
    ]  # fmt: skip
    assert path.stat().st_size < 1.5e6


@pytest.mark.server
def test_a_picture_that_cannot_be_drawn_costs_nothing_else(made, tmp_path, monkeypatch, caplog):
    def fails(*_):
        raise ValueError("no font\nat all")

    monkeypatch.setattr(write, "time_by_size_png", fails)
    (tmp_path / "time_by_size.png").write_bytes(b"of an earlier report")
    assert write_report(tmp_path, made, comparison(made), RUN).is_file()
    assert (tmp_path / "speedup.png").is_file() and not (tmp_path / "time_by_size.png").exists()
    told = [r.getMessage() for r in caplog.records if r.name == write.__name__]
    assert told == ["time_by_size.png could not be drawn: no font"]


def test_a_wide_cell_is_drawn_and_worded_as_wide(made):
    reasons = ("90 samples did not make the median precise before the cap",)
    first = made[0].cell
    wide = [replace(r, verdict=Verdict.IMPRECISE, reasons=reasons) if r.cell == first else r for r in made]
    page = report_html(wide, grid_of(wide, comparison(wide)), RUN)
    text = words(page)
    assert "1 wide" in text and "≈ wide, imprecise; 90 samples" in text
    assert "imprecise (wide)" in text and "is wide: their noise" in text
    assert re.search(r'class="field base wide"', page)
    assert "wide" in full_text(wide, grid_of(wide, comparison(wide)))
    table = comparison_table(grid_of((), comparison(wide))).set_index("cell")
    assert table.loc[first.id, "grade"] == "wide" and set(table["grade"]) == {"sound", "wide", "refused"}
    (row,) = [row for row in speedup_rows(comparison(wide)) if row["cell"] == first.id]
    assert row["grade"] == f"wide: {reasons[0]}"
    rows = benchmark_json(wide, grid_of(wide, comparison(wide)), RUN)["rows"]
    assert {row["grade"] for row in rows if row["verdict"] == "imprecise"} == {"wide"}
    assert set(results_table(wide)["grade"]) == {"sound", "wide", "refused"}


def test_the_scripts_of_a_page_are_made_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(html_page.vl_convert, "javascript_bundle", lambda **version: f"vega {version}")
    assert html_page.bundle.__wrapped__() == "vega {'vl_version': '6.4'}"
    html_page.bundle_file().write_text("kept")
    assert html_page.bundle.__wrapped__() == "kept"
    html_page.bundle_file().write_text("a < b; </script>")
    with pytest.raises(ValueError, match="another version"):
        html_page.bundle.__wrapped__()
