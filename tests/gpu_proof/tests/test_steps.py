"""A proof ends in time and says of everything what became of it, whatever its steps do."""

import subprocess
import sys
import time

import psutil
import pytest

from tests.gpu_proof.bench import Bench, Card
from tests.gpu_proof.plan import STAGES, asked, proof, steps
from tests.gpu_proof.stages import cases, later
from tests.gpu_proof.steps import Step, taken
from tests.gpu_proof.table import FAIL, NOT_RUN, OK, SHOWN, Row, all_hold, holds, summary, within
from workloads.harness.records.case import parse_size
from workloads.harness.registry import find

SLEEPS = [
    sys.executable,
    "-c",
    "import subprocess, time; subprocess.Popen(['sleep', '99']); print(1, flush=True); time.sleep(99)",
]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, "cuda", time.monotonic() + 60, card=Card("NVIDIA H200", 8, (9, 0), 0))


def step(name, *rows, needs_s=0.0, error=None):
    def run(bench):
        yield from rows
        if error:
            raise error

    return Step(name, needs_s, run)


FINE = Row("a", "a", OK, "")


def states(rows):
    return [(row.name, row.state) for row in rows]


def test_a_step_that_raises_is_a_row_and_the_next_is_taken(bench):
    rows = [*taken([step("a", FINE, error=KeyError("two\nlines")), step("b", FINE)], bench)]
    assert states(rows) == [("a", OK), ("a", FAIL), ("a", OK)]
    assert rows[1].text.startswith("KeyError: 'two\\nlines'") and "\n" not in rows[1].line


def test_a_step_that_looks_at_nothing_fails(bench):
    assert states(taken([step("a")], bench)) == [("a", FAIL)]


def test_what_there_is_no_time_for_is_said_and_shorter_ones_are_taken(bench):
    rows = [*taken([step("long", FINE, needs_s=300), step("short", FINE, needs_s=10)], bench)]
    assert states(rows) == [("long", NOT_RUN), ("a", OK)]
    assert rows[0].text.endswith("s were left, it takes about 300")


def test_after_a_signal_nothing_is_begun_and_what_was_killed_does_not_fail(bench):
    def stops(bench):
        bench.stop("stopped by SIGTERM")
        yield Row("a", "a", FAIL, "ended with code -9")
        raise RuntimeError("the process was killed")

    rows = [*taken([Step("a", 0, stops), step("b", FINE)], bench)]
    assert {row.state for row in rows} == {NOT_RUN} and len(rows) == 3
    assert all(row.text.startswith("stopped by SIGTERM") for row in rows)


def test_a_process_ends_with_all_that_it_started(bench):
    before = psutil.Process().children(recursive=True)
    ended = bench.run(SLEEPS, limit_s=1.5)
    assert ended.late and ended.why.startswith("stopped after") and ended.seconds < 20
    assert set(psutil.Process().children(recursive=True)) <= set(before)
    assert "import subprocess" in (bench.out / "log.txt").read_text()


def test_a_process_has_no_more_time_than_the_proof(bench):
    bench.ends_at = time.monotonic() + 0.5
    assert bench.run(SLEEPS, limit_s=60).seconds < 20


def test_what_the_deadline_kills_says_nothing_of_the_card(bench):
    bench.ends_at = time.monotonic() + 0.3

    def run(bench):
        ended = bench.run(SLEEPS, limit_s=60)
        yield holds("a", "a", not ended.late, ended.why)

    rows = [*taken([Step("a", 0, run), step("b", FINE)], bench)]
    assert states(rows) == [("a", NOT_RUN), ("b", NOT_RUN)]
    assert rows[0].text.startswith("no time was left: stopped after")


def test_what_takes_longer_than_it_may_fails_while_there_is_time(bench):
    assert bench.run(SLEEPS, limit_s=0.3).late and not bench.stopped


def test_a_process_is_read_by_its_last_line(bench):
    python = [sys.executable, "-c"]
    assert bench.run([*python, "print('noise'); print('{\"a\": 1}')"], 20).json() == {"a": 1}
    with pytest.raises(RuntimeError, match="ended with code 3: the last word"):
        bench.run(
            [*python, "import sys; print('first\\nthe last word', file=sys.stderr); sys.exit(3)"], 20
        ).json()


def test_a_process_beside_is_ended(bench):
    beside = bench.start(
        [sys.executable, "-c", "print(1, flush=True); import time; time.sleep(99)"], subprocess.PIPE
    )
    assert beside.stdout.readline()
    bench.end(beside)
    assert beside.returncode == -9 and not bench.running


def test_without_a_card_nothing_is_tried(bench, monkeypatch):
    def no_card(*_, **__):
        raise RuntimeError("ended with code 1: no NVIDIA driver")

    bench.card = None
    monkeypatch.setattr(bench, "child", no_card)
    rows = [*proof(bench, [])]
    assert rows[0].state == FAIL and "no NVIDIA driver" in rows[0].text
    assert len(rows) > 40 and {row.state for row in rows[1:]} == {NOT_RUN}


def test_the_plan_is_of_known_workloads_and_has_each_name_once(bench):
    names = [step.name for step in steps(bench, [])]
    assert len(names) == len({*names}) and {name.split()[0] for name in names} == {
        stage.__name__.rpartition(".")[2] for stage in STAGES
    }
    assert sum(name.startswith("cases ") for name in names) == sum(
        len(case.precisions) for case in cases.CASES
    )
    for case in cases.CASES:
        for precision in case.precisions:
            assert find(case.workload).case(parse_size(case.size), precision)


@pytest.mark.parametrize(("gpus", "largest"), [(1, None), (2, 2), (3, 2), (8, 8)])
def test_groups_are_as_large_as_the_machine(bench, gpus, largest):
    bench.card = bench.card._replace(count=gpus)
    names = [step.name for step in steps(bench, []) if step.name.startswith("groups")]
    assert ("groups lost rank" in names) is (gpus > 1)
    assert (f"groups ddpm_weak batch=32 of {largest}" in names) is (gpus > 1)
    assert not any(f" of {2 * size}" in name for size in [largest] if size for name in names)


def test_a_second_call_takes_what_is_named(bench, tmp_path):
    assert [step.name for step in steps(bench, ["soak", "largest"])] == [*later.NAMES]
    assert not {*later.NAMES} & {step.name for step in steps(bench, [])}
    assert {step.name.split()[0] for step in steps(bench, ["precise"])} == {"precise"}
    rows = [Row("clocks", "x", FAIL, ""), Row("clocks", "y", FAIL, ""), Row("precise fp32", "z", OK, ""),
            Row("failures shared", "w", NOT_RUN, "")]  # fmt: skip
    file = tmp_path / "proof.json"
    file.write_text(f'{{"rows": {[*map(Row._asdict, rows)]}}}'.replace("'", '"'))
    assert asked([str(file)]) == ["clocks", "failures shared"]
    assert [step.name for step in steps(bench, asked([str(file)]))] == ["clocks", "failures shared"]


def test_a_word_that_no_step_has_is_said(bench, monkeypatch):
    bench.card = Card("NVIDIA H200", 1, (9, 0), 0)
    monkeypatch.setattr(
        bench, "child", lambda *_, **__: {"name": "x", "count": 1, "capability": [9, 0], "memory_bytes": 0}
    )
    assert [*proof(bench, ["clocksss"])][-1].text == "no step has clocksss in its name"


def test_the_table_ends_with_what_does_not_hold():
    rows = [holds("clocks", "right", True, "1"), within("clocks", "wide", 1.2, 0.95, 1.05),
            within("cases matmul", "gone", None, 0, 1), Row("cases gcn", "late", NOT_RUN, "no time"),
            Row("soak", "rates", SHOWN, "1 2 3")]  # fmt: skip
    table = summary(rows, 12.3).splitlines()
    assert table[1].split() == ["clocks", "1", "1", "0", "0"] and table[2].split() == [
        "cases",
        "0",
        "1",
        "1",
        "0",
    ]
    assert [line.split()[0] for line in table[5:8]] == ["FAIL", "FAIL", "not"]
    assert table[-1] == "1 of 4 hold, 2 fail, 1 were not run; 12 s"


def test_all_hold_only_where_something_was_looked_at():
    assert all_hold([FINE]) and all_hold([FINE, FINE._replace(state=SHOWN)])
    assert not all_hold([]) and not all_hold([FINE._replace(state=SHOWN)])
    assert not all_hold([FINE, FINE._replace(state=NOT_RUN)]) and not all_hold(
        [FINE, FINE._replace(state=FAIL)]
    )
