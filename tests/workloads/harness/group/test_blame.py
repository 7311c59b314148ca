import os
import subprocess
import sys

import pytest

from tests.workloads.harness.group.small_groups import repeat_of
from workloads.harness.group import ranks, watch
from workloads.harness.group.launch import _blamed
from workloads.harness.group.ranks import Membership, ProgressBoard, RankProgress
from workloads.harness.group.watch import hung, laggards
from workloads.harness.records.record import Verdict


def row(steps=0, exchanges=0, pid=1, ended=False):
    return RankProgress(pid, steps, exchanges, ended)


class TestWhoIsToBlame:
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

    def blamed(self, tmp_path, codes, records=None, oom=False, rows=None, last_words=()):
        seen = self.watched(tmp_path, rows or [row(16, 9), row(16, 9)])
        return _blamed(repeat_of("ddpm_weak"), codes, records or {}, seen, last_words, oom, 5.0)

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

    @pytest.mark.parametrize(
        ("code", "line", "end"),
        [
            (1, "MemoryError: Out of memory interning an attribute name", "ended with code 1"),
            (-6, "  what():  std::bad_alloc", "was killed by SIGABRT"),
        ],
    )
    def test_a_rank_that_finds_no_room_for_torch_has_run_out_of_memory(self, tmp_path, code, line, end):
        words = ["Traceback (most recent call last):", line, "and what a library said after it"]
        record = self.blamed(tmp_path, {0: -15, 1: code}, rows=[row(), row()], last_words=words)
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert record.reasons[0].startswith(
            f"memory ran out at n=64,processes=2: rank 1 of 2 {end} before its first step ({line.strip()}); try "
        )
        told_to_end = self.blamed(tmp_path, {0: 0, 1: 0}, last_words=words)
        assert told_to_end.verdict is Verdict.CRASHED

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

    def test_a_reason_that_all_ranks_share_blames_no_rank(self, tmp_path):
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


class TestLaunchersOfTorch:
    def test_a_setting_that_an_older_torch_lacks_is_left_out(self, tmp_path, monkeypatch):
        from dataclasses import fields, make_dataclass

        from torch.distributed.launcher import api

        import workloads.harness.group.launch as launch

        own = [field for field in fields(api.LaunchConfig) if field.name != "shutdown_timeout"]
        older = make_dataclass("LaunchConfig", [(f.name, object, None) for f in own])
        newer = make_dataclass("LaunchConfig", [("shutdown_timeout", object, 30)], bases=(older,))
        monkeypatch.setattr(api, "LaunchConfig", older)
        assert launch._launch_config(3, tmp_path).nproc_per_node == 3
        monkeypatch.setattr(api, "LaunchConfig", newer)
        assert launch._launch_config(3, tmp_path).shutdown_timeout == launch.SHUTDOWN_S

    @pytest.mark.parametrize(
        ("error", "verdict", "text"),
        [
            (
                TypeError("LaunchConfig.__init__() got an unexpected keyword argument\nand more"),
                Verdict.CRASHED,
                "TypeError: LaunchConfig.__init__() got an unexpected keyword argument",
            ),
            (MemoryError(), Verdict.OUT_OF_MEMORY, "memory ran out at "),
            (OSError(12, "Cannot allocate memory"), Verdict.OUT_OF_MEMORY, "memory ran out at "),
        ],
    )
    def test_an_error_of_the_launcher_is_a_record(self, monkeypatch, error, verdict, text):
        import workloads.harness.group.launch as launch

        def raised(*_):
            raise error

        monkeypatch.setattr(launch, "_run_ranks", raised)
        monkeypatch.setattr(launch, "no_room", lambda *_: None)
        for name in (launch.FOLDER, launch.INHERITED, launch.PARENT):
            monkeypatch.setenv(name, "")
        record = launch.lead(repeat_of("ddpm_weak"), 0, 0.0)
        assert record.verdict is verdict
        (reason,) = record.reasons
        assert reason.startswith(f"2 processes could not be started: {text}") and "more" not in reason
