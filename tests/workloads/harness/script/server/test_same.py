import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workloads.harness.script.scripts import ROOT
from workloads.harness.records.files import read_records

SAME = Path(__file__).parent / "same"
OURS = (sys.executable, "-m", "workloads", "script", "--brief", "--whole")
# Verdict and steps of the record; None where any number is right.
SCRIPTS = {
    "saves": ("imprecise", 20),
    "manual": ("unsupported", 0),
    "serves": ("imprecise", 12),
    "logs": ("crashed", 14),
    "spawns": ("imprecise", 12),
    "forks": ("crashed", 10),
    "raises": ("crashed", 5),
    "misfits": ("crashed", 20),
    "compiles": ("imprecise", 5),
    "begins_anew": ("unsupported", None),
    "threads": ("crashed", 10),
}
SIGNALLED = """
import signal, sys, time
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def saved(number, frame):
    torch.save(net, signal.Signals(number).name + ".pt")
    print("saved at", signal.Signals(number).name, flush=True)
    if number == {last}:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
for number in {numbers}:
    signal.signal(number, saved)
for _ in range(5):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def environ(tmp_path):
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(tmp_path),
    }


def ran(folder, tmp_path, *words):
    done = subprocess.run(
        words, cwd=folder, capture_output=True, input=b"", env=environ(tmp_path), timeout=200
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode(), files(folder)


@pytest.mark.parametrize(
    "name", [name if name == "saves" else pytest.param(name, marks=pytest.mark.chaos) for name in SCRIPTS]
)
def test_all_of_it_is_as_without_us(name, tmp_path, box_lock):
    place, records = tmp_path / "place", tmp_path / "records"
    found = []
    for words in ((sys.executable,), (*OURS, f"--out={records}", "--")):
        place.mkdir()
        (place / "train.py").write_bytes((SAME / f"{name}.py").read_bytes())
        found.append(ran(place, tmp_path, *words, "train.py", "--lr", "1"))
        place.rename(tmp_path / f"done-{len(found)}")
    plain, ours = found
    assert ours[:3] == plain[:3]
    assert ours[3].keys() == plain[3].keys()
    assert [name for name in plain[3] if ours[3][name] != plain[3][name]] == []
    (record,) = read_records(records)
    verdict, steps = SCRIPTS[name]
    assert record.verdict == verdict, record.reasons
    assert record.script.steps == steps or steps is None
    if plain[0] == 0:  # the time of the whole job is known, also without a step
        assert record.script.job.measured and 0 < record.script.job.seconds < 200
        assert record.script.job.steps == steps


@pytest.mark.parametrize("last", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_script_once_each(last, tmp_path, box_lock):
    numbers = [signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2, last]
    text = SIGNALLED.format(numbers=[int(number) for number in numbers], last=int(last))
    found = []
    for words in ((sys.executable,), (*OURS, f"--out={tmp_path / 'records'}", "--")):
        place = tmp_path / str(len(found))
        place.mkdir()
        (place / "train.py").write_text(text)
        process = subprocess.Popen(
            [*words, "train.py"],
            cwd=place,
            env=environ(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGHUP, signal.SIG_DFL
            ),  # nohup ignores it for all children
        )
        said = [process.stdout.readline()]
        for number in numbers:
            process.send_signal(number)
            said.append(process.stdout.readline())
        said.append(process.stdout.read())
        found.append((process.wait(60), said, files(place).keys()))
    assert found[0] == found[1]
    assert found[0][0] == -last and len(found[0][2]) == 5
    (record,) = read_records(tmp_path / "records")
    assert (record.verdict, record.reasons[0]) == (
        "crashed",
        f"the script was killed by {signal.Signals(last).name}, so its measurement is lost",
    )


def test_a_script_that_starts_itself_anew_is_named(tmp_path, box_lock):
    (tmp_path / "train.py").write_bytes((SAME / "begins_anew.py").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "workloads", "script", "--brief", "--", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environ(tmp_path),
        timeout=100,
    )
    (tmp_path / "record.jsonl").write_text(done.stdout)
    (record,) = read_records(tmp_path / "record.jsonl")
    assert record.verdict == "unsupported" and "python" in record.reasons[0]
    assert "train.py second`" in record.reasons[0]


ENDS = """
import atexit, pathlib, sys, threading, time
import torch
net = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
atexit.register(lambda: pathlib.Path(sys.argv[1], "atexit").touch())
atexit.register(time.sleep, {sleep})
def train():
    try:
        while True:
            optimizer.zero_grad()
            net(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
            time.sleep(0.002)
    finally:
        pathlib.Path(sys.argv[1], "finally").touch()
{run}
"""
RUNS = {
    "train()": {"atexit", "finally"},
    "threading.Thread(target=train).start()": {"atexit"},  # the thread has no way to stop the others
}


@pytest.mark.parametrize("run", RUNS)
def test_exit_handlers_run_when_a_script_is_stopped(run, tmp_path, box_lock):
    left, project = tmp_path / "left", tmp_path / "project"
    left.mkdir()
    project.mkdir()
    (project / "train.py").write_text(ENDS.format(run=run, sleep=0))
    began = time.monotonic()
    _, out, err, _ = ran(project, tmp_path, *OURS[:-1], "--", "train.py", str(left))
    assert {path.name for path in left.iterdir()} == RUNS[run], err
    assert '"stopped"' in out and time.monotonic() - began < 60


@pytest.mark.chaos
def test_exit_handlers_that_hang_end_with_the_process(tmp_path, box_lock):
    left, project = tmp_path / "left", tmp_path / "project"
    left.mkdir()
    project.mkdir()
    (project / "train.py").write_text(ENDS.format(run="train()", sleep=600))
    _, out, _, _ = ran(project, tmp_path, *OURS[:-1], "--", "train.py", str(left))
    assert '"stopped"' in out and {path.name for path in left.iterdir()} == {"finally"}


def test_the_profilers_own_message_is_not_the_scripts(tmp_path, box_lock):
    (tmp_path / "train.py").write_text(ENDS.format(run="threading.Thread(target=train).start()", sleep=0))
    _, out, err, _ = ran(tmp_path, tmp_path, *OURS[:-1], "--", "train.py", str(tmp_path))
    assert '"stopped"' in out
    assert "registerClient" not in err and "USDT" not in err
