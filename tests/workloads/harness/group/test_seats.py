import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workloads.harness.repeat.dying import wait_for
from workloads.harness.group import launch, ranks, watch
from workloads.harness.group.launch import membership_of, no_room
from workloads.harness.group.ranks import Membership, ProgressBoard, RankProgress, membership_in
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find

ENVIRONMENT = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


class TestSeats:
    def test_torchruns_word_is_taken(self):
        assert membership_in(ENVIRONMENT) == Membership(1, 2, None)
        assert membership_in(ENVIRONMENT | {"GRIDBENCH_GROUP": "/x"}) == Membership(1, 2, Path("/x"))

    def test_a_cluster_that_numbers_its_jobs_so_is_not_torchrun(self):
        assert membership_in({"RANK": "1", "WORLD_SIZE": "2"}) is None

    def test_several_machines_are_refused(self):
        with pytest.raises(WorkloadsError, match=r"2 of 4 ranks are on this machine.*--nnodes=1"):
            membership_in(ENVIRONMENT | {"WORLD_SIZE": "4"})

    @pytest.mark.parametrize(
        ("name", "size", "reason"),
        [
            ("matmul", {"n": 64}, "matmul is measured by one process; start it without torchrun"),
            ("ddpm_weak", {"batch": 1, "processes": 8}, "torchrun started 2 processes, .* processes=8"),
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
        assert no_room("cpu", 8, 1) == "8 processes of 1 thread each need 8 CPUs, but this process can use 4"
        assert no_room("cpu", 2, 3) == "2 processes of 3 threads each need 6 CPUs, but this process can use 4"

    def test_too_many_processes_for_the_gpus(self, monkeypatch):
        monkeypatch.setattr(launch, "asked_gpus", lambda: (None, 4))
        assert no_room("cuda", 4, 1) is None
        assert no_room("cuda", 8, 1) == "8 processes need a GPU each, but 4 can be used here"

    def test_a_driver_that_does_not_answer_is_left_to_the_ranks(self, monkeypatch):
        def hangs():
            raise WorkloadsError("it hangs")

        monkeypatch.setattr(launch, "asked_gpus", hangs)
        assert no_room("cuda", 8, 1) is None

    def test_without_nvml_torch_counts_the_gpus(self, monkeypatch):
        monkeypatch.setattr(launch, "asked_gpus", lambda: (None, None))
        monkeypatch.setattr(
            launch, "driver_answer", lambda question: "2\n" if "device_count" in question else ""
        )
        assert no_room("cuda", 2, 1) is None
        assert "2 can be used" in no_room("cuda", 4, 1)

    def test_the_launcher_reads_the_progress_of_each_rank(self, tmp_path, monkeypatch):
        monkeypatch.setattr(ranks, "_row", None)
        monkeypatch.setattr(ranks, "_ended", False)
        board = ProgressBoard(tmp_path, 2)
        ranks.stepped()  # of no rank
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
        wait_for(lambda: not watch.alive(child.pid))  # an unreaped zombie is dead
        child.wait()
        assert not watch.alive(child.pid)
        assert watch.cpu_s(child.pid) == 0
