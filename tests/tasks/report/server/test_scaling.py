from tasks.findings.compare import compare
from tasks.report.charts.scaling_pictures import gpu_comparison_png, summary_table_png
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.report.write import write_report
from tests.tasks.examples.group_records import BOX, grouped, repeated
from tests.tasks.examples.records import failed, machine
from tests.tasks.examples.reports import RUN
from tests.tasks.examples.scaling import run
from workloads.harness.records.record import Verdict


def test_pictures_of_jobs_of_steps_and_of_nothing_ok_are_png(scaling_run):
    crashed = [failed(Verdict.CRASHED, "rank 1 died", grouped(0.1, n).case, BOX) for n in (1, 2)]
    cases = (
        scaling_run[1],
        compare(repeated(grouped, (0.1,), 2), [machine(BOX)], BOX),
        compare(crashed, [machine(BOX)], BOX),
    )
    for compared, records in zip(cases, (scaling_run[0], repeated(grouped, (0.1,), 2), crashed), strict=True):
        assert gpu_comparison_png(records, compared, "t").startswith(b"\x89PNG")
        assert summary_table_png(compared, "t").startswith(b"\x89PNG")
        assert report_html(records, grid_of(records, compared), RUN)


def test_a_run_of_a_hundred_cases_has_all_its_files(tmp_path):
    records, compared = run(many=True)
    path = write_report(tmp_path, records, compared, RUN)
    names = {file.name for file in tmp_path.iterdir()}
    assert {"gpu_benchmark_comparison.png", "performance_summary_table.png", "models.png"} <= names
    assert path.stat().st_size < 2.5e6
    assert len({summary.cell.case for summary in compared.summaries}) > 100
