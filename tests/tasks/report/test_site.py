import random
import re
from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import pytest
from typer.testing import CliRunner

from gridbench.main import app
from tasks.errors import GridbenchError
from tasks.findings.compare import compare
from tasks.planning.channel import Night
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.publish import write_comparison
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html.site import changes, write_site
from tasks.report.html.trends import site_runs, trends
from tasks.results.values import RatioVerdict
from tasks.store.frames import results_table
from tasks.store.store import Store
from tests.tasks.examples.reports import records as example_records

NIGHTS = 3
MACHINES = {"aws-r5.4xlarge": "local-cpu-1", "aws-g5.8xlarge": "local-cpu"}


def words(page):
    return re.sub(r"<[^>]*>", "", page)


def slower(timing, factor):
    if timing is None:
        return None
    samples = tuple(factor * sample for sample in timing.samples_s)
    names = ("median_s", "ci_low_s", "ci_high_s", "p95_s", "max_s")
    bounds = {name: factor * getattr(timing, name) for name in names}
    return replace(timing, samples_s=samples, **bounds)


def a_night(results, number):
    """Write a run of that night; in the last, matmul takes 10 % longer, on another torch."""
    plan = make_plan(RunRequest(suite="quick", hardware=[*MACHINES.values()]))
    at = datetime(2026, 11, 1 + number, 2, tzinfo=UTC)
    plan = plan.model_copy(update={"created_at": at.isoformat(), "run": f"{at:%Y%m%d}-quick-{number:04}"})
    chance, last, made = random.Random(number), number == NIGHTS - 1, []
    for record in example_records():
        if record.hardware in MACHINES:
            factor = 1 + 0.003 * chance.gauss(0, 1)
            factor += 0.1 if last and record.case.workload == "matmul" else 0
            times = {"wall": slower(record.wall, factor), "device_time": slower(record.device_time, factor)}
            if last:
                newer = record.environment | {"torch": "2.14.0"}
                record = replace(record, environment=newer, environment_id="new")
            made.append(replace(record, run=plan.run, hardware=MACHINES[record.hardware], **times))
    store = Store.create(results, plan)
    for record in made:
        store.add(record)
    results_table(made).to_parquet(store.folder / "results.parquet", index=False)
    comparison = compare(made, plan.machines, plan.baseline)
    comparison_table(grid_of((), comparison)).to_csv(store.folder / "comparison.csv", index=False)
    (store.folder / "report.html").write_text("<p>pictures take their time</p>")
    return store


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history") / "results"
    for number in range(NIGHTS):
        a_night(folder, number)
    return folder


def test_runs_are_oldest_first_with_their_ok_cells(results):
    past, odd = site_runs(results)
    assert [run.plan.run[-4:] for run in past] == ["0000", "0001", "0002"] and odd == []
    assert all(run.has_report and not run.missing for run in past)
    assert {(len(run.verdicts), len(run.counting)) for run in past} == {(18, 18)}


def test_a_trend_tells_a_change_from_noise_and_names_a_new_environment(results):
    found = {(trend.case, trend.hardware): trend.points for trend in trends(site_runs(results)[0])}
    points = found["matmul/n=5000/fp32", "local-cpu"]
    outcomes = [point.change and point.change.outcome for point in points]
    assert outcomes == [None, RatioVerdict.UNDECIDED, RatioVerdict.SLOWER]
    assert points[2].change.estimate.low < 1 / 1.1 < points[2].change.estimate.high
    assert [point.new_environment for point in points] == [False, False, True]
    still = found["image_pipeline/pixels=2048,batch=1/fp32", "local-cpu"]
    assert still[2].change.outcome is RatioVerdict.UNDECIDED


def with_plan_and_table(store, night=None, **columns):
    plan = store.plan.model_copy(update={"night": night})
    (store.folder / "plan.json").write_text(plan.model_dump_json())
    path = store.folder / "results.parquet"
    pd.read_parquet(path).assign(**columns).to_parquet(path, index=False)


def test_a_new_machine_differs_from_a_new_environment_if_both_are_known(tmp_path):
    for number, machine in enumerate(("a", "a", "b")):
        with_plan_and_table(a_night(tmp_path, number), machine_id=machine)
    found = {(trend.case, trend.hardware): trend.points for trend in trends(site_runs(tmp_path)[0])}
    points = found["matmul/n=5000/fp32", "local-cpu"]
    assert [point.new_environment for point in points[1:]] == [False, True]
    assert [point.new_machine for point in points[1:]] == [False, True]
    with_plan_and_table(Store(tmp_path / points[1].run), machine_id=None)
    points = trends(site_runs(tmp_path)[0])[0].points
    assert [point.new_machine for point in points] == [False, False, False]


def test_a_confirmation_is_marked_and_hides_no_change(tmp_path):
    kinds = (Night(), Night(confirms="20261101-quick-0000"), Night())
    for number, night in enumerate(kinds):
        with_plan_and_table(a_night(tmp_path, number), night)
    past = site_runs(tmp_path)[0]
    assert [run.label for run in past] == ["night of main", "confirms 20261101-quick-0000", "night of main"]
    points = {(trend.case, trend.hardware): trend.points for trend in trends(past)}
    first, again, last = points["matmul/n=5000/fp32", "local-cpu"]
    assert again.confirms and again.seconds and again.change is None
    assert first.confirms == last.confirms == "" and last.change.outcome is RatioVerdict.SLOWER
    told = changes(trends(past[:2]))
    assert told == [], "a confirmation is no news after the run that it confirms"


@pytest.mark.server
def test_a_site_marks_confirmations_and_new_machines(tmp_path):
    kinds = [(Night(), "a"), (Night(confirms="20261101-quick-0000"), "a"), (Night(), "b")]
    for number, (night, machine) in enumerate(kinds):
        store = a_night(tmp_path, number)
        with_plan_and_table(store, night, machine_id=machine)
        path = store.folder / "results.parquet"
        rows = pd.read_parquet(path)
        rows[rows["case"] == "matmul/n=5000/fp32"].to_parquet(path, index=False)  # pictures take their time
    index = write_site(tmp_path / "site", *site_runs(tmp_path))
    page, trend = (words((index.parent / name).read_text()) for name in ("index.html", "trend-matmul.html"))
    assert "confirms 20261101-quick-0000" in page and "night of main" in page
    assert "its machine or driver has changed" in page
    assert "confirms 20261101-quick-0000" in trend and "machine or driver changed" in trend


def test_slower_cells_come_first_and_only_those_that_an_interval_shows(results):
    told = changes(trends(site_runs(results)[0]))
    assert {trend.workload for trend, _ in told} == {"matmul"} and len(told) == 6
    values = [point.change.estimate.value for _, point in told]
    assert values == sorted(values) and max(values) < 1


def test_a_refused_result_is_neither_a_point_nor_a_base(tmp_path):
    for number in range(2):
        a_night(tmp_path, number)
    table = tmp_path / "20261101-quick-0000" / "comparison.csv"
    text = table.read_text()
    row = next(line for line in text.splitlines() if line.startswith("local-cpu/matmul/n=5000"))
    table.write_text(text.replace(row, row.replace(",ok,sound,", ",impossible,refused,", 1)))
    found = {(trend.case, trend.hardware): trend.points for trend in trends(site_runs(tmp_path)[0])}
    first, second = found["matmul/n=5000/fp32", "local-cpu"]
    assert (first.seconds, first.verdict) == (None, "impossible")
    assert second.seconds and second.change is None


@pytest.mark.server
def test_an_unfinished_run_a_corrupt_plan_and_a_broken_file_are_named_not_hidden(tmp_path):
    a_night(tmp_path, 0)
    (a_night(tmp_path, 1).folder / "results.parquet").write_bytes(b"no parquet")
    (a_night(tmp_path, 2).folder / "plan.json").write_text("{")
    past, odd = site_runs(tmp_path)
    assert [bool(run.missing) for run in past] == [False, True] and "gridbench resume" in past[1].missing
    assert len(odd) == 1 and "plan.json can't be read" in odd[0]
    page = write_site(tmp_path / "site", past, odd).read_text()
    assert "unfinished" in page and "plan.json can" in page


@pytest.mark.server
def test_a_site_has_a_page_a_workload_every_report_and_no_dead_link(results, tmp_path):
    index = write_site(tmp_path / "out", *site_runs(results))
    pages = {path.name: path.read_text() for path in index.parent.glob("*.html")}
    assert {*pages} == {"index.html", "trend-matmul.html", "trend-gcn.html", "trend-image_pipeline.html"}
    assert words(pages["index.html"]).count("is slower than before in 20261103-quick-0002") == 6
    assert "matmul/n=5000/fp32" in pages["trend-matmul.html"]
    for name, text in pages.items():
        ids = {name: set(re.findall(r' id="([^"]+)"', text)) for name, text in pages.items()}
        for link in re.findall(r'(?:href|src|srcset)="([^"#:]*)(#[^"]*)?"', text):
            target, part = link
            assert not target or (index.parent / target).is_file(), link
            if part and not part.startswith("#shape-"):
                assert part[1:] in ids[target or name], link


@pytest.mark.server
def test_hostile_names_stay_text(tmp_path):
    store = a_night(tmp_path, 0)
    path = store.folder / "plan.json"
    hostile = '"suite": "<script>alert(1)</script>"'
    path.write_text(path.read_text().replace('"suite": "quick"', hostile))
    page = write_site(tmp_path / "site", *site_runs(tmp_path)).read_text()
    assert "<script" not in page and "&lt;script&gt;" in page


def test_a_site_writes_nothing_outside_its_folder(tmp_path):
    store = a_night(tmp_path / "results", 0)
    (store.folder / "report.html").write_text("hostile")
    plan = store.plan.model_copy(update={"run": "../../../outside"})
    (store.folder / "plan.json").write_text(plan.model_dump_json())
    page = write_site(tmp_path / "home" / "pages" / "site", *site_runs(tmp_path / "results"))
    assert "cannot be the name of a folder" in page.read_text() and not list(tmp_path.glob("**/outside*"))


def test_no_run_at_all_is_a_sentence(tmp_path):
    with pytest.raises(GridbenchError, match="has no run"):
        site_runs(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_sentence(results, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GridbenchError, match="the site cannot be written"):
        write_site(tmp_path / "file", *site_runs(results))


@pytest.mark.server
def test_two_runs_are_compared_by_the_same_report(results, tmp_path):
    first, second = Store.open(results, "20261102"), Store.open(results, "20261103")
    report, sentences = write_comparison(first, second, tmp_path / "out")
    text = " ".join(sentences)
    assert "slower in 6" in text and "12 of 18" in text and "torch: 2.14.0 against 2.13.0" in text
    page = report.read_text()
    assert "matmul@local-cpu" in page and "20261103-quick-0002 against 20261102-quick-0001" in page
    with pytest.raises(GridbenchError, match="can't be compared with itself"):
        write_comparison(first, first, tmp_path / "out")


@pytest.mark.server
def test_the_commands_say_where_they_wrote(results):
    ran = CliRunner().invoke(app, ["compare", "20261101", "20261102", "--results", str(results)])
    assert ran.exit_code == 0 and "undecided" in ran.output
    assert (results / "comparisons" / "20261101-quick-0000..20261102-quick-0001" / "report.html").is_file()
    ran = CliRunner().invoke(app, ["site", "--results", str(results)])
    assert ran.exit_code == 0 and (results / "site" / "index.html").is_file()
    assert len(site_runs(results)[0]) == NIGHTS, "neither of the folders counts as a run"
