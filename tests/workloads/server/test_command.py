import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.workloads.command_line import ROOT, command
from workloads.__main__ import main
from workloads.command import measure
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.record import Record

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    """One real run for several tests: exit code, both outputs, and the parent's seconds."""
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
        assert record.wall_s <= elapsed_s + 0.02  # its start is reported in ticks of 10 ms
        assert elapsed_s - record.wall_s <= 0.15 * elapsed_s + 1  # in which it ends, on a busy machine
        began = [
            "process_start",
            "waiting",
            "import",
            "probe",
            "context",
            "build",
            "first_call",
        ]
        assert [*record.phases_s][:8] == [*began, "search"]
        assert record.phases_s["import"] > 0.1
        timed_s, cap_s = record.wall.mean_s * record.wall.steps, Rules().sample_cap_s
        # more than the steps that count: samples that still drifted are left to the warm-up
        assert 0.8 * timed_s <= record.phases_s["samples"] <= 1.2 * timed_s + cap_s

    def test_output_of_a_workload_is_not_on_standard_output(self, cheats):
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

    def test_an_interrupted_run_leaves_the_box_free(self, cheats, tmp_path):
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
            (["run", "matmul", "--size=n=x"], "size n=x must be a whole number of 0 or more"),
            (
                ["run", "matmul", "--size=n=1", "--precision=fp64"],
                "precision 'fp64' is unknown; choose from fp32,",
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
            (["fly"], "argument COMMAND: 'fly' is unknown; there are list, run,"),
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
                "argument --device: 'tpu' is unknown; did you mean cpu?",
            ),
            (["run", "matmul", "--size=n=1", "--seed=x"], "argument --seed: invalid int value: 'x'"),
            (["run", "matmul", "--size=n=1", "--colour"], "--colour is unknown; there are --help"),
            (["suite", "quick", "--repeats=0"], "argument --repeats: '0' must be a whole number above 0"),
            (["suite", "quick", "--device=tpu"], "argument --device: 'tpu' is unknown"),
            (["suite", "quick", "--hardware=../x"], "argument --hardware: '../x' is not a name"),
            (["suite", "quick", "--hardware="], "argument --hardware: '' is not a name"),
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
        assert re.search(r"^error: threads=10000 must be from 1 to \d+, ", err, re.M)

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
    """Assert one sentence on standard error, empty standard output, and exit code 2."""
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
