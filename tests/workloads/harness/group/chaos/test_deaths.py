import json
import os
import re
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from tests.workloads.harness.group.small_groups import ROOT, TORCHRUN, pids_in, ranks_in, repeat_of
from tests.workloads.harness.repeat.box_holders import is_free
from tests.workloads.harness.repeat.dying import gone, wait_for
from workloads.harness.records.record import Verdict
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat

HUNG = "rank 1 of 2 made no progress for [0-9.]+ s; last seen in step"


@pytest.mark.parametrize(
    ("name", "timeout_s", "reason"),
    [
        ("one_is_stopped", 100, HUNG),
        ("one_sleeps", 100, HUNG),
        ("one_spins", 60, HUNG),
    ],
)
def test_a_rank_that_hangs_is_named_before_the_time_is_up(run, name, timeout_s, reason):
    record = run(repeat_of(name, timeout_s=timeout_s))
    assert record.verdict is Verdict.TIMEOUT, record.reasons
    assert re.search(reason, record.reasons[0]), record.reasons
    assert record.wall_s < timeout_s


def test_ranks_without_room_for_torch_are_out_of_memory(groups, tmp_path):
    cramped = tmp_path / "cramped"
    cramped.write_text(f'#!/bin/sh\nulimit -d {200 * 1024}; exec {sys.executable} "$@"\n')
    cramped.chmod(0o755)
    script = (
        f"import sys; from workloads.__main__ import main; sys.executable = {str(cramped)!r}\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    said = []
    with whole_box() as lock:
        record = run_repeat(repeat_of("small_weak"), lock, said.append, (sys.executable, "-c", script))
    assert record.verdict is Verdict.OUT_OF_MEMORY, (record.reasons, said)
    assert re.search(r"rank [01] of 2 .* before its first step", record.reasons[0])
    assert any("Traceback" in line for line in said), "what ranks say is passed on"


def test_a_rank_that_is_killed_from_outside_in_the_midst(run, note):
    killer = threading.Thread(target=lambda: os.kill(ranks_in(note, 1)[1], signal.SIGKILL))
    killer.start()
    record = run(repeat_of("goes_on"))
    killer.join()
    assert record.verdict is Verdict.CRASHED
    assert re.search(r"^rank 1 of 2 was killed by SIGKILL in step \d+$", record.reasons[0])


@pytest.mark.parametrize("victim", ["launcher", "parent"])
def test_no_rank_outlives_its_launcher(groups, box_lock, note, victim):
    script = (
        "import tests.workloads.harness.group.small_groups as t; from workloads.harness.repeat.series import measure_or_skip\n"
        "print(measure_or_skip(t.repeat_of('one_sleeps'), [], print).to_json())"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pids = pids_in(note)
    (launcher,) = psutil.Process(parent.pid).children()
    (launcher if victim == "launcher" else parent).send_signal(signal.SIGKILL)
    out, _ = parent.communicate(timeout=120)
    wait_for(lambda: all(map(gone, [*pids, launcher.pid])), limit_s=20)
    wait_for(lambda: is_free(box_lock), limit_s=1)
    if victim == "launcher":
        record = json.loads(out.splitlines()[-1])
        assert record["reasons"][0].startswith("the measuring process was killed by SIGKILL")


def test_no_rank_outlives_torchrun(groups, note):
    words = ["-m", "workloads", "run", "one_sleeps", "--size", "n=64,processes=2"]
    launcher = subprocess.Popen([*TORCHRUN, "--nproc-per-node=2", *words], cwd=ROOT)
    pids = pids_in(note)
    launcher.kill()
    launcher.wait()
    wait_for(lambda: all(map(gone, pids)), limit_s=20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_with_its_ranks(groups, note, number):
    command = [sys.executable, "-m", "workloads", "run", "one_sleeps", "--size", "n=64,processes=2"]
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    pids = pids_in(note)
    launcher.send_signal(number)
    assert launcher.wait(timeout=120) == 130
    wait_for(lambda: all(map(gone, pids)), limit_s=20)
