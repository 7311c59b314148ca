import shutil

import psutil
import pytest

from tests.workloads.harness.repeat.dying import wait_for
from tests.workloads.harness.script.scripts import SCRIPTS, measured, start

ENDS = {
    "missing": ("crashed", "needs the package a_package_that_nobody_has, which is not installed here"),
    "no-torch": ("unsupported", "ended without importing torch"),
    "raises": ("crashed", "the script raised ValueError: the data set is empty before its first step"),
    "exits": ("crashed", "the script ended with code 1 before its first step"),
    "three": ("imprecise", "the script ended after 3 steps"),
    "pool": ("imprecise", "the script ended after 5 steps"),
    "none": ("unsupported", "call `workloads.mark.step()` at the end of each step"),
    "os-exit": ("crashed", "the script's process ended with code 3"),
    "nan": ("wrong", "the loss of step 1 is nan"),
    "own-optimizer": ("unsupported", "backward calls but no step of a torch.optim.Optimizer were seen"),
    "subprocess": ("unsupported", "processes that it started"),
}


def left_over(folder):
    """Return command lines of processes that run something in a folder, and of their forks."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]


@pytest.mark.parametrize("how", ENDS)
def test_a_failed_script_is_described_in_one_sentence(how, box_lock):
    verdict, sentence = ENDS[how]
    record = measured("--", "bad.py", how)
    assert record.verdict == verdict
    assert [reason for reason in record.reasons if sentence in reason], record.reasons


def test_the_traceback_of_a_script_is_printed_once(box_lock):
    _, _, err = start("--brief", "--", "bad.py", "raises")
    assert err.count("Traceback") == 1 and "workloads/harness/script/m" not in err
    assert f'File "{SCRIPTS}/bad.py", line' in err


@pytest.mark.parametrize("how", ["deaf", "forks"])
def test_no_process_of_a_script_that_would_stay_is_left(how, tmp_path, box_lock):
    shutil.copy(SCRIPTS / "bad.py", tmp_path)
    record = measured("--", "bad.py", how, folder=tmp_path)
    assert record.script.ended == "stopped" and record.wall is not None
    wait_for(lambda: not left_over(tmp_path))


def test_a_hanging_script_is_ended_and_its_line_is_named(box_lock):
    record = measured("--timeout-s=20", "--", "bad.py", "hangs")
    assert (record.verdict, record.script.steps) == ("timeout", 0)
    line = next(
        n for n, text in enumerate((SCRIPTS / "bad.py").read_text().splitlines(), 1) if "sleep(600)" in text
    )
    assert f"the script was before its first step, at line {line} of {SCRIPTS}/bad.py" in record.reasons[0]


def test_a_flood_of_output_is_cut(box_lock):
    _, out, err = start("--brief", "--", "bad.py", "prints")
    assert out.count("\n") == 1
    assert 100_000 < len(err) < 300_000 and "characters is left out" in err


MISTAKES = {
    ("--", "nowhere.py"): "file nowhere.py does not exist in",
    ("--", "plain.py", "--batch", "{batch}"): "the command has {batch}, but size batch is not given",
    (
        "--size=batch=16",
        "--",
        "plain.py",
    ): "size batch is given, but the command lacks its placeholder {batch}",
    ("--", "plain.py", "{data}"): "the command has {data}, but data is not given",
    ("--steps=5", "--epochs=2", "--", "plain.py"): "are both given; give one",
    ("--whole", "--", "plain.py"): "name a folder for the record by --out",
    (): "no script is given",
    ("--", "-m"): "name a file, such as train.py",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_reported_before_anything_starts(words):
    code, out, err = start(*words)
    assert (code, out) == (2, "") and MISTAKES[words] in err
    assert err.count("\n") == 1
