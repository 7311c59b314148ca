import sys

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.program import Program, metric_of
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import OWN, Script
from workloads.harness.script import processes, program

RATE = metric_of("cells/s: rate ([0-9.]+)")


@pytest.fixture
def called(tmp_path, monkeypatch):
    """Return a function that measures a command in a temporary folder."""
    monkeypatch.setattr(program, "adopt_orphans", lambda: None)  # for all of this process's life

    def call(*words, timeout_s=20.0, seed=0, size=(), metrics=(RATE,), **given):
        script = Script(words, folder=str(tmp_path), program=Program(metrics=metrics, **given))
        repeat = Repeat("a-run", "here", Case.of("it", dict(size), OWN), seed=seed, timeout_s=timeout_s)
        records = []
        code = program.measure_program(
            Repeat(**_fields(repeat) | {"script": script}), Phases(), records.append
        )
        assert code == int(not records[0].ok)
        return Record.from_json(records[0].to_json())

    return call


def _fields(repeat):
    return {name: getattr(repeat, name) for name in ("run", "hardware", "case", "seed", "timeout_s")}


def test_a_command_tells_its_numbers(called):
    record = called(
        "sh",
        "-c",
        "echo rate {cells}.5; echo seen $N {seed} >&2",
        size={"cells": 9},
        seed=7,
        env=(("N", "{cells}"),),
    )
    run = record.script.program
    assert [(metric.name, metric.value) for metric in record.metrics] == [("cells/s", 9.5)]
    assert (run.output, run.errors, record.script.exit_code) == (("rate 9.5",), ("seen 9 7",), 0)
    assert record.wall is None and counts(record) and 0 < run.call_s < record.wall_s
    assert {"probe", "call"} < record.phases_s.keys()


def test_without_metrics_its_number_is_the_time_of_a_call(called):
    record = called("sleep", "0.3", metrics=())
    assert record.wall.whole and record.wall.median_s == record.script.program.call_s > 0.3
    assert record.memory.peak_rss_bytes > 100_000 and record.phases_s["call"] > 0.3


def test_a_warm_up_does_not_count(called):
    record = called("sh", "-c", "echo x >> n; echo rate $(wc -l < n)", warm_ups=2)
    assert record.metrics[0].value == 3 and len(record.script.program.warm_ups_s) == 2
    assert record.phases_s["warm_up"] > 0


@pytest.mark.parametrize(
    ("words", "verdict", "sentence"),
    [
        (("sh", "-c", "echo none"), Verdict.WRONG, "metric cells/s is not in the output"),
        (("sh", "-c", "echo rate 1 rate 2"), Verdict.WRONG, "is in the output 2 times (1, 2)"),
        (
            ("sh", "-c", "echo rate 1; echo no >&2; exit 3"),
            Verdict.CRASHED,
            "the command ended with code 3 (no)",
        ),
        (("sh", "-c", "kill -9 $$"), Verdict.CRASHED, "the command was killed by SIGKILL"),
        (
            ("sh", "-c", "echo CUDA out of memory; exit 1"),
            Verdict.OUT_OF_MEMORY,
            "memory ran out: CUDA out of",
        ),
        (("no-such-tool-here",), Verdict.UNSUPPORTED, "can't start no-such-tool-here: No such file"),
    ],
)
def test_each_bad_end_is_one_sentence(called, words, verdict, sentence):
    record = called(*words)
    assert record.verdict is verdict and sentence in record.reasons[0] and len(record.reasons) == 1
    assert not counts(record)


def test_a_command_that_hangs_is_stopped_with_its_processes_and_keeps_its_output(called):
    record = called("sh", "-c", "echo began; sleep 60 & sleep 60", timeout_s=1.0)
    assert record.verdict is Verdict.TIMEOUT and record.script.program.output == ("began",)
    assert record.reasons[0].startswith("the command was stopped after 0.") and record.wall_s < 15


def test_a_process_that_stays_behind_does_not_hold_the_record(called):
    assert called("sh", "-c", "echo rate 1; sleep 60 &").metrics


def test_the_output_is_bounded_and_printable(called):
    text = f"import sys; sys.stdout.write('x' * {3 * processes.MOST_BYTES} + '\\x1b[31m\\nrate 1\\n')"
    record = called(sys.executable, "-c", text)
    assert record.metrics and len(record.to_json()) < 100_000 and record.script.program.output[-1] == "rate 1"
