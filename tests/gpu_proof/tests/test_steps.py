import json
import subprocess
import sys
import time
from datetime import UTC, datetime

import psutil
import pytest

from tests.gpu_proof.bench import Bench, Card
from tests.gpu_proof.leave import Earlier, Report, earlier, made_ready
from tests.gpu_proof.measured import Measured
from tests.gpu_proof.plan import STAGES, asked, proof, steps
from tests.gpu_proof.stages import cases, groups, later
from tests.gpu_proof.steps import Step, taken
from tests.gpu_proof.table import FAIL, NOT_RUN, OK, SHOWN, Row, all_hold, holds, summary, within
from tests.workloads.building import is_ours
from workloads.harness.records.case import parse_size
from workloads.harness.registry import all_workloads, find

EVERY_CASE = (*cases.ESSENTIAL, *cases.CASES)
CARD_FACTS = {"name": "x", "count": 1, "capability": [9, 0], "memory_bytes": 0}
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


def test_steps_without_time_left_are_reported_and_shorter_steps_run(bench):
    rows = [*taken([step("long", FINE, needs_s=300), step("short", FINE, needs_s=10)], bench)]
    assert states(rows) == [("long", NOT_RUN), ("a", OK)]
    assert rows[0].text.endswith("s were left, it takes about 300")


def test_after_a_signal_no_step_begins_and_killed_steps_do_not_fail(bench):
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


def test_a_process_that_the_deadline_kills_is_no_failure_of_the_card(bench):
    bench.ends_at = time.monotonic() + 2

    def run(bench):
        ended = bench.run(SLEEPS, limit_s=60)
        yield holds("a", "a", not ended.late, ended.why)

    rows = [*taken([Step("a", 0, run), step("b", FINE)], bench)]
    assert states(rows) == [("a", NOT_RUN), ("b", NOT_RUN)]
    assert rows[0].text.startswith("no time was left: stopped after")


def test_a_process_over_its_limit_fails_while_time_is_left(bench):
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
        len(case.precisions) for case in EVERY_CASE
    )
    for case in EVERY_CASE:
        for precision in case.precisions:
            assert find(case.workload).case(parse_size(case.size), precision)


def test_every_workload_of_a_gpu_is_proved():
    """A new workload needs a case here, with its expectation."""
    in_cases = {case.workload for case in EVERY_CASE} | {name for name, *_ in groups.CASES}
    assert in_cases == {name for name, w in all_workloads().items() if "cuda" in w.devices and is_ours(w)}


@pytest.mark.parametrize(("gpus", "largest"), [(1, None), (2, 2), (3, 2), (8, 8)])
def test_groups_are_as_large_as_the_machine(bench, gpus, largest):
    bench.card = bench.card._replace(count=gpus)
    names = [step.name for step in steps(bench, []) if step.name.startswith("groups")]
    assert ("groups lost rank" in names) is (gpus > 1)
    assert (f"groups ddpm_weak batch=32 of {largest}" in names) is (gpus > 1)
    assert not any(f" of {2 * size}" in name for size in [largest] if size for name in names)


def test_a_group_of_cards_without_a_precision_is_refused(bench, monkeypatch):
    bench.card = bench.card._replace(capability=(7, 5), count=2)
    refused = Measured({"verdict": "unsupported", "reasons": ["no bf16"], "wall": None}, "", 1.0)
    monkeypatch.setattr(groups, "measure", lambda *_: refused)
    (row,) = groups.scaling("gpt2_ddp", "millions=124", "bf16", 2, bench)
    assert row.state == OK
    (row,) = groups.scaling("ddpm_weak", "batch=32", "fp32", 2, bench)
    assert row.state == FAIL


def test_a_second_call_runs_the_named_steps(bench, tmp_path):
    assert [step.name for step in steps(bench, ["soak", "largest"])] == [*later.NAMES]
    assert not {*later.NAMES} & {step.name for step in steps(bench, [])}
    assert {step.name.split()[0] for step in steps(bench, ["precise"])} == {"precise"}
    rows = [Row("clocks", "x", FAIL, ""), Row("clocks", "y", FAIL, ""), Row("precise fp32", "z", OK, ""),
            Row("failures shared", "w", NOT_RUN, "")]  # fmt: skip
    file = tmp_path / "proof.json"
    file.write_text(json.dumps({"rows": [*map(Row._asdict, rows)]}))
    assert asked([str(file)]) == ["clocks", "failures shared"]
    assert [step.name for step in steps(bench, asked([str(file)]))] == ["clocks", "failures shared"]


def test_essential_steps_come_first_and_cover_each_mechanism(bench):
    made = steps(bench, [])
    flags = [step.essential for step in made]
    assert flags == sorted(flags, reverse=True) and 0 < sum(flags) < len(flags) / 2
    first = " ".join(step.name for step in made if step.essential)
    for words in ("precise", "clocks", "failures", "gemm m=8192,n=8192,k=8192 fp8", "--mode graph", "--mode compiled",
                  "ddpm_weak", "resnet_train_loader", "lora_step", "resnet50_train", "--profile"):  # fmt: skip
        assert words in first


def test_a_word_that_is_a_whole_name_means_that_step_alone(bench):
    name = "cases llm_decode millions=1236,batch=1,context=2048 bf16"
    assert [step.name for step in steps(bench, [name])] == [name]
    assert len(steps(bench, ["llm_decode millions=1236"])) == 3


def test_a_time_limit_can_leave_out_inessential_steps(bench):
    def all_of(rest):
        made = [step("a", FINE), rest._replace(essential=False)]
        return [*taken(made, bench)]

    left_out = all_of(step("b", FINE, needs_s=300))
    assert left_out[-1].state == NOT_RUN and all_hold(left_out)
    assert not all_hold(all_of(step("b", FINE._replace(state=FAIL))))
    assert not all_hold([*taken([step("a", FINE), step("b", FINE, needs_s=300)], bench)])


def test_a_further_call_goes_on_where_the_first_ended(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "child", lambda *_, **__: CARD_FACTS)
    done = [name for name in (step.name for step in steps(bench, [])) if not name.startswith("cases gcn")]
    rows = [Row(name, name, OK, "") for name in done]
    rows += [
        Row("cases gcn hidden=16 fp32", "half", OK, ""),
        Row("cases gcn hidden=16 fp32", "rest", NOT_RUN, ""),
    ]
    bench.facts = CARD_FACTS
    Report(bench, datetime.now(UTC), rows=rows).write()

    before = earlier(tmp_path, "cuda")
    assert before.done == {*done} and "half" not in {row.name for row in before.rows}
    bench.ends_at = time.monotonic() + 8  # enough for a look at the card
    again = [*proof(bench, [], before)]
    wanted = [
        "cases gcn_job hidden=16,epochs=200 fp32",
        "cases gcn hidden=16 fp32",
        "cases gcn hidden=16 bf16",
    ]
    assert [row.step for row in again if row.step != "card"] == wanted

    report = Report(bench, datetime.now(UTC), before, [Row(name, name, OK, "") for name in wanted])
    report.write()
    assert all_hold(report.rows) and {row.step for row in report.rows} == {*done, *wanted}
    assert earlier(tmp_path, "cuda").done == {*done, *wanted}


def test_a_proof_of_another_card_or_of_other_code_does_not_go_on(bench, tmp_path, monkeypatch):
    Report(bench, datetime.now(UTC), rows=[FINE]).write()
    with pytest.raises(SystemExit, match="of other code or of another device: begin anew, without --resume"):
        earlier(tmp_path, "cpu")
    with pytest.raises(SystemExit, match="there is no proof in"):
        earlier(tmp_path / "nothing", "cuda")
    monkeypatch.setattr(bench, "child", lambda *_, **__: CARD_FACTS)
    *_, row = proof(bench, [], Earlier(card="NVIDIA L4"))
    assert (row.state, row.text) == (FAIL, "this is x, the proof that goes on is of NVIDIA L4: begin anew")


def test_a_continued_proof_keeps_the_files_of_its_folder(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    made_ready(first, None)
    (first / "records.jsonl").write_text("{}\n")
    made_ready(second, first)
    made_ready(second, second)
    assert (second / "records.jsonl").read_text() == "{}\n"
    assert len((second / "log.txt").read_text().splitlines()) == 3
    made_ready(second, None)
    assert not (second / "records.jsonl").exists()


def test_a_word_that_no_step_has_is_reported(bench, monkeypatch):
    bench.card = Card("NVIDIA H200", 1, (9, 0), 0)
    monkeypatch.setattr(bench, "child", lambda *_, **__: CARD_FACTS)
    assert [*proof(bench, ["clocksss"])][-1].text == "no step has clocksss in its name"


def test_the_table_of_a_proof_ends_with_its_failed_rows():
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
