"""python -m workloads, as a person or a lane calls it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workloads.harness.records.test_record import FULL, timing
from workloads.__main__ import main
from workloads.command import measure, read
from workloads.harness.records.case import Case
from workloads.harness.records.files import read_records, write_record
from workloads.harness.records.record import Record, Verdict
from workloads.harness.registry import all_workloads
from workloads.harness.repeat.suite import suite_names

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)

ROOT = Path(__file__).parents[3]


def command(*arguments):
    """Run the program; returns its exit code, standard output and standard error."""
    program = [sys.executable, "-m", "workloads", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "errors": "replace", "cwd": ROOT, "timeout": 120}
    found = subprocess.run(program, **options)
    return found.returncode, found.stdout, found.stderr


def records_at(seconds, hardware="a-box", case=FULL.case, **changes):
    """Three ok repeats around a time per step."""
    return [
        Record("r", hardware, case, n, Verdict.OK, wall=timing(median_s=seconds * (1 + n / 1000)), **changes)
        for n in (1, 2, 3)
    ]


def written(folder, records):
    for record in records:
        write_record(folder, record)
    return folder


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    """One real run that several tests look at: exit code, both outputs, and seconds by the parent's clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDBENCH_BOX_LOCK", str(tmp_path_factory.mktemp("box") / "lock"))
        started = time.perf_counter()
        found = command("run", "matmul", "--size", "n=256", "--seed=7", "--repeat=3", "--hardware=my-box")
        return *found, time.perf_counter() - started


class TestRun:
    def test_prints_one_record(self, one_run):
        code, out, err, _ = one_run
        record = Record.from_json(out)
        assert out.count("\n") == 1
        assert code == (0 if record.ok else 1)
        assert record.cell.id == "my-box/matmul/n=256/fp32"
        assert (record.repeat, record.seed, record.device) == (3, 7, "cpu")
        assert record.check.error < 1e-5
        assert record.work.flops == 2 * 256**3
        assert record.environment["torch"]
        assert re.search(r"my-box/matmul/n=256/fp32#3 .*products/s +\w+", err)

    def test_phases_add_up_to_the_wall_that_the_parent_sees(self, one_run):
        _, out, _, elapsed_s = one_run
        record = Record.from_json(out)
        assert sum(record.phases_s.values()) + record.unattributed_s == pytest.approx(record.wall_s, abs=1e-6)
        assert abs(record.unattributed_s) <= 0.1 * record.wall_s + 0.5  # a phase left out would be seconds
        assert (
            0.85 * elapsed_s - 0.2 <= record.wall_s <= elapsed_s + 0.02
        )  # its start is told in ticks of 10 ms
        names = ["process_start", "waiting", "import", "probe", "context", "build", "first_call", "check"]
        assert [*record.phases_s][:8] == names
        assert record.phases_s["import"] > 0.1
        assert record.phases_s["samples"] == pytest.approx(
            sum(record.wall.samples_s) * record.wall.block, rel=0.2
        )

    def test_what_a_workload_prints_is_not_on_standard_output(self, cheats):
        code, out, err = command("run", "prints_garbage", "--size=n=64", "--quick")
        record = Record.from_json(out)
        assert (code == 0) == record.ok
        assert "and from a child" in err
        assert "step 7" in err

    @pytest.mark.parametrize(("name", "verdict"), [("returns_nan", "wrong"), ("raises", "crashed")])
    def test_a_bad_verdict_is_exit_code_1_with_a_record(self, cheats, name, verdict):
        code, out, err = command("run", name, "--size=n=64", "--quick")
        assert code == 1
        assert Record.from_json(out).verdict == verdict
        assert "Traceback" not in err

    @pytest.mark.chaos
    def test_the_same_seed_gives_the_same_answer(self, box_lock):
        errors = [
            Record.from_json(
                command("run", "matmul", "--size=n=64", "--threads=1", "--quick", f"--seed={seed}")[1]
            )
            for seed in (1, 1, 2)
        ]
        assert errors[0].check == errors[1].check != errors[2].check
        assert errors[0].environment_id == errors[2].environment_id

    def test_interrupting_it_leaves_the_box_free(self, cheats, tmp_path):
        note = tmp_path / "note"
        process = subprocess.Popen(
            [sys.executable, "-m", "workloads", "run", "hangs", "--size=n=64"],
            cwd=ROOT,
            env=os.environ | {"TEST_NOTE": str(note)},
            stderr=subprocess.PIPE,
            text=True,
        )
        while not note.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in err


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["run", "matmull", "--size=n=1"], "workload 'matmull' is unknown; did you mean matmul?"),
            (["run", "matmul", "--size=m=1"], "workload matmul has no size parameter 'm'; it takes n"),
            (["run", "matmul", "--size="], "workload matmul needs the size parameter 'n'"),
            (["run", "matmul", "--size=n"], "size 'n' is not of the form name=number, such as n=1000"),
            (["run", "matmul", "--size=n=0"], "size n=0 must be above 0"),
            (["run", "matmul", "--size=n=x"], "size n=x must be a whole number from 0 on"),
            (
                ["run", "matmul", "--size=n=1", "--precision=fp64"],
                "precision 'fp64' is unknown; there are fp32,",
            ),
            (["suite", "nightli"], "suite 'nightli' is unknown; did you mean nightly?"),
            (["suite", "/nowhere/x.toml"], "suite '/nowhere/x.toml' is unknown"),
            (["show", "/nowhere"], "/nowhere does not exist; name a file of records or a run's folder"),
            (["compare", "/nowhere", "/nowhere"], "/nowhere does not exist"),
        ],
        ids=str,
    )
    def test_one_sentence_and_exit_code_2(self, capfd, arguments, words):
        assert words in assert_refused(capfd, arguments)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "the following arguments are required: COMMAND"),
            (["fly"], "argument COMMAND: invalid choice: 'fly' (choose from 'list', 'run',"),
            (["run"], "the following arguments are required: --size, workload"),
            (["run", "matmul"], "the following arguments are required: --size"),
            (
                ["run", "matmul", "--size=n=1", "--threads=0"],
                "argument --threads: '0' must be a whole number above 0",
            ),
            (["run", "matmul", "--size=n=1", "--threads=two"], "'two' must be a whole number above 0"),
            (
                ["run", "matmul", "--size=n=1", "--repeat=0"],
                "argument --repeat: '0' must be a whole number above 0",
            ),
            (["run", "matmul", "--size=n=1", "--order=-1"], "argument --order"),
            (
                ["run", "matmul", "--size=n=1", "--device=tpu"],
                "argument --device: invalid choice: 'tpu' (choose from",
            ),
            (["run", "matmul", "--size=n=1", "--seed=x"], "argument --seed: invalid int value: 'x'"),
            (["run", "matmul", "--size=n=1", "--colour"], "unrecognized arguments: --colour"),
            (["suite", "quick", "--repeats=0"], "argument --repeats: '0' must be a whole number above 0"),
            (["suite", "quick", "--device=tpu"], "argument --device: invalid choice: 'tpu'"),
            (["suite", "quick", "--hardware=../x"], "argument --hardware: '../x' is no name"),
            (["suite", "quick", "--hardware="], "argument --hardware: '' is no name"),
        ],
        ids=str,
    )
    def test_wrong_options_are_named(self, monkeypatch, capfd, arguments, words):
        for name in ("run", "suite"):
            monkeypatch.setattr(measure, name, lambda options: pytest.fail(f"went on with {options}"))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert words in capfd.readouterr().err.splitlines()[-1]

    def test_more_threads_than_there_are_is_a_mistake(self, box_lock):
        code, out, err = command("run", "matmul", "--size=n=64", "--threads=10000")
        assert (code, out) == (2, "")
        assert re.search(
            r"^error: threads=10000 must be from 1 to \d+, the CPUs that this process may use$", err, re.M
        )

    def test_a_lock_that_can_not_be_is_a_mistake(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GRIDBENCH_BOX_LOCK", str(tmp_path))
        code, out, err = command("run", "matmul", "--size=n=64")
        assert (code, out) == (2, "")
        assert re.fullmatch(
            r"error: the box lock .* can't be opened \(Is a directory\); remove it or name .*\n", err
        )

    def test_a_broken_folder_of_workloads_is_a_mistake(self, use_workloads, tmp_path, capfd):
        use_workloads(tmp_path)
        (tmp_path / "mine.py").write_text("import no_such_module")
        for arguments in (["list"], ["run", "matmul", "--size=n=1"]):
            assert "mine.py can't be imported: ModuleNotFoundError" in assert_refused(capfd, arguments)


def assert_refused(capfd, arguments):
    """A mistake is one sentence on standard error, nothing on the other, and exit code 2."""
    stdout = os.dup(1)
    try:
        assert main(arguments) == 2
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    return err


class TestList:
    def test_names_everything(self, capsys):
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        for name in [*all_workloads(), *suite_names()]:
            assert name in out

    def test_as_json(self, capsys):
        assert main(["list", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found.keys() == all_workloads().keys()
        assert found["matmul"]["tiny"] == {"n": 64}
        assert 5000 in found["matmul"]["sizes"]["n"]

    def test_a_reader_that_leaves_early_gets_no_traceback(self):
        script = f"{sys.executable} -m workloads list --json | true; exit ${{PIPESTATUS[0]}}"
        found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT)
        assert found.stderr == ""


class TestShow:
    def test_a_folder_is_a_table(self, tmp_path, capsys):
        records = [
            FULL,
            replace(FULL, repeat=3, verdict=Verdict.CRASHED, reasons=("it fell over",), wall=None),
        ]
        assert main(["show", str(written(tmp_path, records))]) == 0
        out = capsys.readouterr().out
        assert len(out.splitlines()) == 4
        assert re.search(r"a-box/matmul/n=5000/fp32#3 .* crashed +it fell over", out)

    def test_one_record_is_shown_in_full(self, tmp_path, capsys):
        assert main(["show", str(written(tmp_path, [FULL]))]) == 0
        out = capsys.readouterr().out
        for words in (
            "noisy",
            "2 s",
            "1 s",
            "end to end",
            "2.75 s",
            "250 GFLOP/s",
            "phase import",
            "1.5 s",
            "steal_share",
        ):
            assert words in out
        assert "null: measured on the CPU" in out

    def test_as_json_lines_that_can_be_read_again(self, tmp_path, capsys):
        records = records_at(1.0)
        assert main(["show", "--json", str(written(tmp_path, records))]) == 0
        (tmp_path / "again.jsonl").write_text(capsys.readouterr().out)
        assert list(read_records(tmp_path / "again.jsonl")) == records

    def test_an_unreadable_record_is_named_and_the_others_shown(self, tmp_path, capsys):
        written(tmp_path, records_at(1.0))
        (tmp_path / "bad.json").write_text('{"schema": 99}')
        assert main(["show", str(tmp_path)]) == 1
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 5
        assert re.fullmatch(
            r"error: .*bad.json, line 1: the record has schema 99, this version reads 1 to 3; [^\n]+\n", err
        )

    @pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["compare", "."]])
    def test_an_empty_folder_says_so(self, tmp_path, monkeypatch, capsys, command):
        monkeypatch.chdir(tmp_path)
        assert main([*command, str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert re.fullmatch(r"error: .* holds no records; name a file of records or a run's folder\n", err)


class TestCompare:
    @pytest.mark.parametrize(
        ("seconds", "verdict"), [(0.5, "2x .* faster"), (2.0, r"0.5x .* slower"), (1.0, "1x .* undecided")]
    )
    def test_says_who_is_faster(self, tmp_path, capsys, seconds, verdict):
        base = written(tmp_path / "base", records_at(1.0))
        other = written(tmp_path / "other", records_at(seconds, "b-box"))
        assert main(["compare", str(base), str(other)]) == 0
        assert re.search(rf"matmul/n=5000/fp32 .* {verdict}", capsys.readouterr().out)

    def test_only_ok_records_of_the_same_case_are_paired(self, tmp_path, capsys):
        base = written(tmp_path / "base", records_at(1.0))
        wrong = [replace(r, verdict=Verdict.WRONG) for r in records_at(0.1)]
        larger = records_at(1.0, case=Case.of("matmul", {"n": 6000}))
        other = written(tmp_path / "other", wrong + larger)
        assert main(["compare", str(base), str(other)]) == 0
        out = capsys.readouterr().out
        assert re.search("n=5000/fp32 +ok +no ok record .* unpaired", out)
        assert re.search("n=6000/fp32 +no ok record +ok .* unpaired", out)


class TestCheck:
    @pytest.mark.parametrize(("fit", "code"), [(True, 0), (False, 1)])
    def test_the_exit_code_says_whether_the_machine_is_fit(self, monkeypatch, capsys, fit, code):
        monkeypatch.setattr(
            read, "findings", lambda: [(True, "torch is here"), (fit, "others are busy: stop them")]
        )
        assert main(["check"]) == code
        assert capsys.readouterr().out.splitlines() == [
            "ok    torch is here",
            f"{'ok  ' if fit else 'warn'}  others are busy: stop them",
        ]

    def test_for_real(self, box_lock):
        code, out, err = command("check")
        assert code in (0, 1)
        assert err == ""
        assert re.search(r"^ok    torch 2\.", out, re.M)
        assert re.search(r"GiB of memory are free", out)


SUITE = """
repeats = 2
quick = true
timeout_s = 60
[[cases]]
workload = "matmul"
size = { n = 64 }
[[cases]]
workload = "edge_detection"
size = { pixels = 64 }
"""


class TestSuite:
    def test_two_cases_twice_in_fresh_processes(self, box_lock, tmp_path):
        (tmp_path / "mine.toml").write_text(SUITE)
        code, out, err = command("suite", tmp_path / "mine.toml", "--out", tmp_path / "records", "--seed=3")
        assert out == ""
        records = list(read_records(tmp_path / "records"))
        assert sorted(f"{r.case.id}#{r.repeat}" for r in records) == [
            *("edge_detection/pixels=64/fp32#1", "edge_detection/pixels=64/fp32#2"),
            *("matmul/n=64/fp32#1", "matmul/n=64/fp32#2"),
        ]
        assert sorted(r.order for r in records) == [0, 1, 2, 3]
        assert {r.seed for r in records} == {4, 5}  # the suite's seed and the repeat's number
        assert (code == 0) == all(r.ok for r in records)
        assert re.search(r"^\[1/4\] here/", err, re.M)
        assert len({r.phases_s["process_start"] for r in records}) > 1

    def test_records_go_to_standard_output_and_a_second_time_changes_nothing(
        self, monkeypatch, tmp_path, capsys
    ):
        (tmp_path / "mine.toml").write_text(SUITE)
        ended = iter(range(100))

        def measure(repeat, *_):
            return replace(repeat.failed(Verdict.OK, ""), wall_s=float(next(ended)))

        monkeypatch.setattr("workloads.harness.repeat.series.measure_or_skip", measure)
        assert main(["suite", str(tmp_path / "mine.toml")]) == 0
        out, _ = capsys.readouterr()
        assert [Record.from_json(line).order for line in out.splitlines()] == [0, 1, 2, 3]
        arguments = ["suite", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "records")]
        assert main(arguments) == 0
        first = list(read_records(tmp_path / "records"))
        capsys.readouterr()
        assert main(arguments) == 0
        assert list(read_records(tmp_path / "records")) == first
        assert "exists already" in capsys.readouterr().err

    def test_a_folder_that_can_not_be_written_is_said_before_anything_is_measured(
        self, monkeypatch, tmp_path, capsys
    ):
        (tmp_path / "mine.toml").write_text(SUITE)
        measured = []
        monkeypatch.setattr(
            "workloads.harness.repeat.series.measure_or_skip", lambda repeat, *_: measured.append(repeat)
        )
        out = tmp_path / "mine.toml" / "records"
        assert main(["suite", str(tmp_path / "mine.toml"), "--out", str(out)]) == 2
        assert re.fullmatch(
            r"error: .* can't be written \(.*\); name another folder or make room\n", capsys.readouterr().err
        )
        assert measured == []
