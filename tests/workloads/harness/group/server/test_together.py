"""Real processes that measure together, by gloo."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.workloads.harness.group.small_groups import MEASURED, repeat_of
from tests.workloads.harness.repeat.box_holders import is_free
from tests.workloads.harness.repeat.dying import gone, wait_for
from workloads.harness.records.record import Record, Verdict
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat

ROOT, GROUPS = Path(__file__).parents[5], Path(__file__).parents[3] / "groups"


HUNG = "rank 1 of 2 made no progress for [0-9.]+ s; last seen in step"


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")


@pytest.fixture
def groups(use_workloads, box_lock):
    use_workloads(GROUPS)


@pytest.fixture
def note(tmp_path, monkeypatch):
    """Where every rank leaves its process id."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    monkeypatch.setenv("TEST_NOTE", str(folder))
    return folder


def pids_in(note, count=2):
    wait_for(lambda: len(list(note.iterdir())) >= count, 200)
    return [int(path.name) for path in note.iterdir()]


def ranks_in(note, count=2):
    pids_in(note, count)
    return {int(wait_for(path.read_text)): int(path.name) for path in note.iterdir()}


@pytest.fixture
def run(groups):
    """Measures a repeat as suites do; what it said is kept, and that nothing is left of it is seen to."""
    said = []

    def start(repeat):
        with whole_box() as lock:
            record = run_repeat(repeat, lock, said.append)
        assert not [p for p in psutil.process_iter(["cmdline"]) if mine(p, repeat)]
        assert Record.from_json(record.to_json()) == record
        return record

    start.said = said
    return start


def mine(process, repeat):
    """Whether a process measures this repeat and has not ended."""
    words = " ".join(process.info["cmdline"] or [])
    return f'"{repeat.case.workload}"' in words and f'"{repeat.run}"' in words and not gone(process.pid)


class TestTogether:
    """Real processes, by gloo."""

    def test_two_measure_as_one(self, run, note):
        record = run(repeat_of("small_weak"))
        assert record.verdict in MEASURED, record.reasons
        group, work = record.group, record.work
        assert (group.backend, group.scaling) == ("gloo", "weak")
        assert [(r.rank, r.device) for r in group.ranks] == [(0, "cpu"), (1, "cpu")]
        assert all(r.peak_rss_bytes > 5e7 and r.median_s > 0 for r in group.ranks)
        assert record.wall.median_s >= 0.5 * max(r.median_s for r in group.ranks)
        assert 0 <= group.communication_share < 1
        assert group.spread >= 0
        assert (work.units, work.unit, record.threads) == (16, "rows", 1)
        assert work.counted_flops == work.matmul_flops == 2 * 2 * 8 * (64 * 65 * 2 + 64)
        assert record.training.last_loss < record.training.first_loss
        assert record.phases_s["import"] > 0.1
        assert sorted(ranks_in(note)) == [0, 1]
        assert "foreign_cores" in record.probes or "foreign_cores" in record.missing

    def test_one_alone_is_a_group_too(self, run):
        record = run(repeat_of("small_strong", processes=1))
        assert record.verdict in MEASURED, record.reasons
        assert (record.group.scaling, len(record.group.ranks)) == ("strong", 1)
        assert record.group.communication_share is None
        assert record.work.units == 8

    def test_a_trial_only_sees_whether_it_fits(self, run):
        record = run(repeat_of("small_weak", trial=True))
        assert (record.verdict, record.wall) == (Verdict.OK, None)

    def test_a_job_takes_as_long_as_its_slowest_rank_and_every_rank_shows_its_memory(self, run):
        record = run(repeat_of("small_job"))
        assert record.verdict in MEASURED, record.reasons
        assert record.wall.median_s >= 0.6
        assert min(record.training.step_s) >= 0.2
        assert [(m.step, m.rank) for m in record.training.memory] == [(2, 0), (2, 1), (3, 0), (3, 1)]
        assert all(m.peak_bytes >= 0.5 * m.allocated_bytes > 1e7 for m in record.training.memory)

    def test_in_a_plain_shell(self, groups, tmp_path):
        command = [
            sys.executable,
            "-m",
            "workloads",
            "run",
            "small_weak",
            "--size",
            "n=64,processes=2",
            "--quick",
        ]
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
        record = Record.from_json(found.stdout)
        assert record.verdict in MEASURED
        assert len(record.group.ranks) == 2
        assert found.returncode == (0 if record.ok else 1)

    def test_by_torchrun(self, groups):
        words = ["-m", "workloads", "run", "small_weak", "--size", "n=64,processes=2", "--quick"]
        found = subprocess.run(
            [*TORCHRUN, "--nproc-per-node=2", *words], capture_output=True, text=True, cwd=ROOT, timeout=600
        )
        record = Record.from_json(found.stdout)
        assert record.verdict in MEASURED, found.stderr
        assert len(record.group.ranks) == 2

    @pytest.mark.parametrize(
        ("name", "verdict", "reason"),
        [
            ("one_is_killed", "crashed", r"^rank 1 of 2 was killed by SIGKILL in step \d+$"),
            pytest.param(
                "one_exits",
                "crashed",
                r"^rank 1 of 2 ended with code 3 in step \d+$",
                marks=pytest.mark.chaos,
            ),
            ("one_raises", "crashed", "^rank 1 of 2: the workload raised KeyError: 'a key'"),
            pytest.param(
                "one_dies_early", "crashed", "^rank 1 of 2 ended with code 5 ", marks=pytest.mark.chaos
            ),
            ("one_runs_out_of_memory", "out_of_memory", "^rank 1 of 2: memory ran out at n=64,processes=2"),
            pytest.param(
                "all_raise",
                "crashed",
                "^the workload raised ZeroDivisionError: before it was built$",
                marks=pytest.mark.chaos,
            ),
            ("forgets_to_exchange", "wrong", "gradients differ after a step: they were not exchanged$"),
        ],
    )
    def test_the_end_of_one_is_the_end_of_all_and_says_whose_it_was(self, run, name, verdict, reason):
        record = run(repeat_of(name))
        assert record.verdict == verdict, record.reasons
        assert re.search(reason, record.reasons[0]), record.reasons
        assert record.wall_s < 200

    @pytest.mark.parametrize(
        ("name", "timeout_s", "reason"),
        [
            ("one_is_stopped", 100, HUNG),
            pytest.param("one_sleeps", 100, HUNG, marks=pytest.mark.chaos),
            pytest.param("one_spins", 60, HUNG, marks=pytest.mark.chaos),
        ],
    )
    def test_a_rank_that_hangs_is_named_before_the_time_is_up(self, run, name, timeout_s, reason):
        record = run(repeat_of(name, timeout_s=timeout_s))
        assert record.verdict is Verdict.TIMEOUT, record.reasons
        assert re.search(reason, record.reasons[0]), record.reasons
        assert record.wall_s < timeout_s

    def test_a_rank_that_is_killed_from_outside_in_the_midst(self, run, note):
        killer = threading.Thread(target=lambda: os.kill(ranks_in(note, 1)[1], signal.SIGKILL))
        killer.start()
        record = run(repeat_of("goes_on"))
        killer.join()
        assert record.verdict is Verdict.CRASHED
        assert re.search(r"^rank 1 of 2 was killed by SIGKILL in step \d+$", record.reasons[0])

    @pytest.mark.parametrize("victim", ["launcher", "parent"])
    def test_no_rank_outlives_whoever_started_it(self, groups, box_lock, note, victim):
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

    def test_no_rank_outlives_torchrun(self, groups, note):
        words = ["-m", "workloads", "run", "one_sleeps", "--size", "n=64,processes=2"]
        launcher = subprocess.Popen([*TORCHRUN, "--nproc-per-node=2", *words], cwd=ROOT)
        pids = pids_in(note)
        launcher.kill()
        launcher.wait()
        wait_for(lambda: all(map(gone, pids)), limit_s=20)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_told_to_end_it_ends_with_its_ranks(self, groups, note, number):
        command = [sys.executable, "-m", "workloads", "run", "one_sleeps", "--size", "n=64,processes=2"]
        launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        pids = pids_in(note)
        launcher.send_signal(number)
        assert launcher.wait(timeout=120) == 130
        wait_for(lambda: all(map(gone, pids)), limit_s=20)

    def test_too_many_are_unsupported_before_anything_starts(self, groups, note):
        command = [sys.executable, "-m", "workloads", "run", "small_weak", "--size", "n=64,processes=9999"]
        started = time.monotonic()
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        record = Record.from_json(found.stdout)
        assert (record.verdict, found.returncode) == (Verdict.UNSUPPORTED, 1)
        assert re.search(
            "9999 processes of 1 thread each need 9999 CPUs; this process may use", record.reasons[0]
        )
        assert not list(note.iterdir())
        assert time.monotonic() - started < 100

    def test_a_mistake_in_the_call_is_said_once(self, box_lock):
        command = [sys.executable, "-m", "workloads", "run", "ddpm_strong", "--size", "batch=3,processes=2"]
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert (found.returncode, found.stdout) == (2, "")
        sentence = "error: batch=3 can't be shared evenly by processes=2; choose a multiple of 2\n"
        assert found.stderr.count("can't be shared") == 1
        assert found.stderr.endswith(sentence)
