"""Several processes that measure together: one record of all, and whatever happens to one, a record that names it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.workloads.harness.repeat.server.test_deaths import gone, wait_for
from tests.workloads.harness.repeat.test_exclusive import is_free
from workloads.harness.group import ranks, watch
from workloads.harness.group.launch import _blamed, membership_of, no_room
from workloads.harness.group.ranks import Membership, ProgressBoard, RankProgress, membership_in
from workloads.harness.group.watch import hung, laggards
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat

ROOT, GROUPS = Path(__file__).parents[4], Path(__file__).parents[2] / "groups"
HUNG = "rank 1 of 2 made no progress for [0-9.]+ s; last seen in step"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")
MEASURED = (Verdict.OK, Verdict.NOISY, Verdict.UNSTEADY, Verdict.IMPRECISE)


def repeat_of(name, timeout_s=240.0, processes=2, **changes):
    case = Case.of(name, {"n": 64, "processes": processes})
    return replace(Repeat("a-run", "a-box", case, quick=True, timeout_s=timeout_s), **changes)


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


def row(steps=0, exchanges=0, pid=1, ended=False):
    return RankProgress(pid, steps, exchanges, ended)


class TestWhoIsToBlame:
    """What is made of where the ranks were last seen, and of how they ended."""

    @pytest.mark.parametrize(
        ("rows", "blamed"),
        [
            ([row(12, 80), row(11, 74)], [1]),
            ([row(12, 74), row(12, 80)], [0]),
            ([row(12, 80), row(11, 80)], [1]),
            ([row(12, 80), row(12, 80)], [0, 1]),
            ([row(12, 80), row(12, 74), row(12, 80), row(12, 74)], [1, 3]),
            ([row(12, 80, ended=True), row(3, 4)], [1]),
        ],
    )
    def test_the_others_wait_for_those_that_have_exchanged_least(self, rows, blamed):
        assert laggards(rows) == blamed

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            (
                [row(12, 80), row(11, 74)],
                "rank 1 of 2 made no progress for 30 s; last seen in step 12, while the others wait in step 13",
            ),
            (
                [row(12, 80), row(12, 74)],
                "rank 1 of 2 made no progress for 30 s; last seen in step 13, while the others wait there too",
            ),
            ([row(4, 4)], "rank 0 of 1 made no progress for 30 s; it was last seen in step 5"),
            ([row(), row()], "no rank of 2 made progress for 30 s; all were last seen before the first step"),
        ],
    )
    def test_a_sentence_names_them(self, rows, said):
        assert hung(rows, 30.0) == said

    def watched(self, tmp_path, rows):
        found = watch.Watch(ProgressBoard(tmp_path, len(rows)), 60)
        found.rows = tuple(rows)
        return found

    def blamed(self, tmp_path, codes, records=None, oom=False, rows=None):
        seen = self.watched(tmp_path, rows or [row(16, 9), row(16, 9)])
        return _blamed(repeat_of("ddpm_weak"), codes, records or {}, seen, oom, 5.0)

    def test_a_signal_is_blamed_before_those_that_were_told_to_end(self, tmp_path):
        record = self.blamed(tmp_path, {0: -15, 1: -9})
        assert (record.verdict, record.reasons) == (
            Verdict.CRASHED,
            ("rank 1 of 2 was killed by SIGKILL in step 17",),
        )
        assert (record.wall_s, record.case) == (5.0, repeat_of("ddpm_weak").case)

    def test_the_kernels_kill_for_memory_names_the_rank_and_the_size(self, tmp_path):
        record = self.blamed(tmp_path, {0: -15, 1: -9}, oom=True)
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert record.reasons[0].startswith(
            "the kernel ran out of memory at n=64,processes=2 and killed rank 1 of 2 in step 17; try "
        )

    def test_a_rank_that_lost_its_peer_is_innocent(self, tmp_path):
        lost = repeat_of("ddpm_weak").failed(
            Verdict.CRASHED, "the workload raised RuntimeError: Connection closed by peer [127.0.0.1]:5"
        )
        record = self.blamed(tmp_path, {0: 1, 1: 3}, {0: lost}, rows=[row(3, 9), row()])
        assert record.reasons == ("rank 1 of 2 ended with code 3 before its first step",)
        raised = repeat_of("ddpm_weak").failed(Verdict.OUT_OF_MEMORY, "memory ran out")
        record = self.blamed(tmp_path, {0: 1, 1: 1}, {0: lost, 1: raised})
        assert (record.verdict, record.reasons) == (
            Verdict.OUT_OF_MEMORY,
            ("rank 1 of 2: memory ran out",),
        )
        assert (
            self.blamed(tmp_path, {0: 1, 1: -15}, {0: lost})
            .reasons[0]
            .startswith("rank 0 of 2: the workload")
        )

    def test_one_reason_of_all_is_nobodys_own(self, tmp_path):
        alike = repeat_of("ddpm_weak").failed(Verdict.UNSUPPORTED, "tf32 is a mode of GPUs")
        assert self.blamed(tmp_path, {0: 1, 1: 1}, {0: alike, 1: alike}) == alike

    def test_a_rank_that_dies_after_the_end_takes_nothing_away(self, tmp_path, monkeypatch):
        import workloads.harness.group.launch as launch

        done = repeat_of("ddpm_weak").failed(Verdict.OK, "")

        def ranks_ran(processes, arguments, folder):
            board = ProgressBoard(folder, processes)
            for rank in range(processes):
                monkeypatch.setattr(ranks, "_row", None)
                board.sit(rank)
                ranks.ended()
                Membership(rank, processes, folder).path("record").write_text(done.to_json())
            return {1: -9}

        monkeypatch.setattr(ranks, "_ended", False)
        monkeypatch.setattr(launch, "_run_ranks", ranks_ran)
        monkeypatch.setattr(launch, "no_room", lambda *_: None)
        for name in (launch.FOLDER, launch.INHERITED, launch.PARENT):
            monkeypatch.setenv(name, "")
        assert launch.lead(repeat_of("ddpm_weak"), 0, 0.0) == done

    def test_the_folder_of_a_killed_starter_goes_and_that_of_a_living_one_stays(self, tmp_path, monkeypatch):
        import tempfile

        import workloads.harness.group.launch as launch

        gone_already = subprocess.Popen([sys.executable, "-c", ""])
        gone_already.wait()
        left = [
            tmp_path / f"gridbench-group-{name}" for name in (f"{gone_already.pid}-x", f"{os.getpid()}-y")
        ]
        for folder in left:
            folder.mkdir()
            (folder / "board").write_text("")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        launch._clear_up()
        assert list(tmp_path.iterdir()) == left[1:]

    def test_ended_without_a_word(self, tmp_path):
        assert self.blamed(tmp_path, {}).reasons == ("rank 0 of 2 ended with code 0 in step 17",)


ENVIRONMENT = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


class TestSeats:
    def test_torchruns_word_is_taken(self):
        assert membership_in(ENVIRONMENT) == Membership(1, 2, None)
        assert membership_in(ENVIRONMENT | {"GRIDBENCH_GROUP": "/x"}) == Membership(1, 2, Path("/x"))

    def test_a_cluster_that_numbers_its_jobs_so_is_not_torchrun(self):
        assert membership_in({"RANK": "1", "WORLD_SIZE": "2"}) is None

    def test_several_machines_are_refused(self):
        with pytest.raises(WorkloadsError, match=r"4 ranks with 2 on this machine.*--nnodes=1"):
            membership_in(ENVIRONMENT | {"WORLD_SIZE": "4"})

    @pytest.mark.parametrize(
        ("name", "size", "reason"),
        [
            ("matmul", {"n": 64}, "matmul is measured by one process; start it without torchrun"),
            ("ddpm_weak", {"batch": 1, "processes": 8}, "torchrun started 2 processes .* processes=8"),
        ],
    )
    def test_torchrun_and_the_size_must_agree(self, monkeypatch, name, size, reason):
        for key, value in ENVIRONMENT.items():
            monkeypatch.setenv(key, value)
        workload = find(name)
        with pytest.raises(WorkloadsError, match=reason):
            membership_of(workload, Repeat("a-run", "a-box", workload.case(size)))

    def test_too_many_processes_for_the_cpus(self, monkeypatch):
        monkeypatch.setattr("workloads.harness.group.launch.affinity", lambda: frozenset(range(4)))
        assert no_room("cpu", 4, 1) is None
        assert no_room("cpu", 2, 2) is None
        assert no_room("cpu", 8, 1) == "8 processes of 1 thread each need 8 CPUs; this process may use 4"
        assert no_room("cpu", 2, 3) == "2 processes of 3 threads each need 6 CPUs; this process may use 4"

    def test_too_many_processes_for_the_gpus(self, monkeypatch):
        import torch

        monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
        assert no_room("cuda", 4, 1) is None
        assert no_room("cuda", 8, 1) == "8 processes need a GPU each; torch sees 4"

    def test_what_a_rank_writes_is_seen_by_whoever_started_it(self, tmp_path, monkeypatch):
        monkeypatch.setattr(ranks, "_row", None)
        monkeypatch.setattr(ranks, "_ended", False)
        board = ProgressBoard(tmp_path, 2)
        ranks.stepped()  # nobody's
        assert board.rows() == (RankProgress(), RankProgress())
        ProgressBoard(tmp_path, 2).sit(1)
        for _ in range(3):
            ranks.stepped()
        ranks.exchanged(7)
        assert board.rows() == (RankProgress(), RankProgress(os.getpid(), 3, 7, False))
        assert not ranks.have_ended()
        ranks.ended()
        assert board.rows()[1].ended
        assert ranks.have_ended()

    def test_a_process_is_seen_to_live_to_work_and_to_die(self):
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            assert watch.alive(child.pid)
            wait_for(lambda: watch.cpu_s(child.pid) > 0.05)
        finally:
            child.kill()
        wait_for(lambda: not watch.alive(child.pid))  # a zombie that nobody has reaped is dead
        child.wait()
        assert not watch.alive(child.pid)
        assert watch.cpu_s(child.pid) == 0


@pytest.mark.server
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
            "import tests.workloads.harness.group.test_distributed as t; from workloads.harness.repeat.series import measure_or_skip\n"
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
