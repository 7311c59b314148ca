from datetime import timedelta

import pytest

from tasks.findings.two_runs import ComparedRun
from tasks.planning.channel import Night
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.night import judge_night
from tasks.regressions.run_gate import CellStatus, compare_cells
from tasks.regressions.tickets import verdicts_of
from tasks.report.text.run_gate import most_of, numbers_text, status_text
from tests.tasks.examples.nights import FIRST, keep, run_name
from tests.tasks.examples.records import record
from workloads.harness.records.program import Better, MetricValue, ProgramRun
from workloads.harness.records.record import Verdict
from workloads.harness.records.script import ScriptRun

CALM = (1.0, 1.004, 0.997)
METRICS = ["tokens/s: rate ([0-9.]+)", "hits (%, higher): hits ([0-9.]+)"]


def plan_of(folder, run="a-run", **request):
    text = f'[[commands]]\nrun = "true"\nname = "serve"\nmetrics = {METRICS!r}\n'
    (folder / "mine.toml").write_text(text)
    asked = {"suite": str(folder / "mine.toml"), "hardware": ["local-cpu"], "seed": 7} | request
    return make_plan(RunRequest(**asked)).model_copy(update={"run": run})


def records_of(plan, rate=100.0, hits=95.0, bad=False):
    found = []
    for repeat in plan.repeats_on(plan.hardware[0]):
        factor = CALM[(repeat.repeat - 1) % 3]
        metrics = (
            MetricValue("tokens/s", "tokens/s", Better.HIGHER, rate * factor),
            MetricValue("hits", "%", Better.HIGHER, hits + factor),
        )
        run = ScriptRun(
            ("true",), repeat.script.code, program=ProgramRun(1.0, metrics=() if bad else metrics)
        )
        same = {"run": plan.run, "order": repeat.order, "script": run, "wall": None, "work": None}
        changes = {"verdict": Verdict.WRONG, "reasons": ("metric tokens/s is not there",)} if bad else {}
        found.append(record(1.0, repeat.case, repeat.hardware, repeat.repeat, **same | changes))
    return found


def compared(tmp_path, **changes):
    sides = [
        ComparedRun(plan.run, tuple(records_of(plan, **change)), tuple(plan.machines), plan.baseline)
        for plan, change in ((plan_of(tmp_path, "after"), changes), (plan_of(tmp_path, "before"), {}))
    ]
    cells = compare_cells(*sides, set(plan_of(tmp_path).cells)).cells
    return {cell.cell.case.mode: cell for cell in cells}


def test_a_gate_judges_each_number_of_a_command(tmp_path):
    cells = compared(tmp_path, rate=70.0)
    assert {name: cell.status for name, cell in cells.items()} == {
        "tokens/s": CellStatus.SLOWER,
        "hits (%, higher)": CellStatus.UNCHANGED,
    }
    text = numbers_text(cells["tokens/s"])
    assert text.startswith("it changed by -30.0 % (") and "tokens/s, 100.0" in text
    assert status_text(cells["tokens/s"]) == "worse" and most_of(cells["tokens/s"]).endswith("lower (worse)")
    assert "per step" not in text


def test_a_gate_compares_percentages_by_points(tmp_path):
    cell = compared(tmp_path, hits=75.0)["hits (%, higher)"]
    assert cell.status is CellStatus.SLOWER
    assert "it changed by -20.0 points (" in numbers_text(cell) and status_text(cell) == "worse"


def test_a_command_without_its_numbers_is_lost_by_each_of_them(tmp_path):
    cells = compared(tmp_path, bad=True)
    assert {cell.status for cell in cells.values()} == {CellStatus.LOST} and len(cells) == 2
    assert "metric tokens/s is not there" in cells["tokens/s"].why


@pytest.fixture
def nights(tmp_path):
    results = tmp_path / "results"
    for number in range(12):
        night = Night(channel="main")
        plan = plan_of(tmp_path, run_name(number), night=night)
        at = (FIRST + timedelta(days=number)).isoformat(timespec="seconds")
        plan = plan.model_copy(update={"created_at": at})
        factor = 1 + 0.002 * (number % 3 - 1)
        keep(results, plan, records_of(plan, rate=factor * (70.0 if number == 11 else 100.0)))
    return results


def test_nights_watch_each_number(nights):
    judged = judge_night(nights, run_name(11))
    assert judged.to_confirm == {"local-cpu": ("serve/own",)}
    verdicts = {verdict.case: verdict for verdict in verdicts_of(judged).series}
    assert {case: str(verdict.state) for case, verdict in verdicts.items()} == {
        "serve/own/tokens/s": "suspect",
        "serve/own/hits (%, higher)": "watching",
    }
