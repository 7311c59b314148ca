import errno
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from workloads.harness.records.case import Case
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import read_records, record_path, write_record, write_text
from workloads.harness.records.parts import Operator, Profile
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.text import detail

RECORD = Record("r", "a-box", Case.of("matmul", {"n": 64}), 2, Verdict.OK, wall_s=1.0)
PLACE = Path("a-box/matmul/n=64/fp32/2.json")


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestText:
    def test_makes_folders_and_leaves_nothing_else(self, tmp_path):
        write_text(tmp_path / "a" / "b.txt", "größer\n")
        assert (tmp_path / "a" / "b.txt").read_text() == "größer\n"
        assert below(tmp_path) == ["a/b.txt"]
        assert (tmp_path / "a" / "b.txt").stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize("call", ["os.fsync", "os.replace", "os.chmod"])
    def test_a_full_disk_leaves_the_old_file_and_no_scraps(self, tmp_path, monkeypatch, call):
        path = tmp_path / "x.txt"
        write_text(path, "old")

        def full(*arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(call, full)
        with pytest.raises(
            WorkloadsError, match=r"x.txt can't be written \(No space left on device\); name another"
        ):
            write_text(path, "new")
        monkeypatch.undo()
        assert path.read_text() == "old"
        assert below(tmp_path) == ["x.txt"]

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
    def test_the_kernels_own_full_disk_is_told_alike(self, tmp_path, monkeypatch):
        import workloads.harness.records.files as module

        def full(*arguments, dir, **options):
            return open("/dev/full", "wb", buffering=0)

        monkeypatch.setattr(module.tempfile, "NamedTemporaryFile", full)
        monkeypatch.setattr(module.os, "unlink", lambda path: None)  # not /dev/full itself
        with pytest.raises(WorkloadsError, match="No space left on device"):
            write_text(tmp_path / "x.txt", "new")

    @pytest.mark.parametrize(
        ("place", "why"),
        [
            ("file/x.txt", "File exists|Not a directory"),
            ("file/deep/x.txt", "Not a directory"),
            ("folder", "Is a dir"),
        ],
    )
    def test_a_place_that_can_not_be(self, tmp_path, place, why):
        (tmp_path / "file").write_text("")
        (tmp_path / "folder").mkdir()
        with pytest.raises(
            WorkloadsError, match=rf"can't be written \(({why}).*name another folder or make room"
        ):
            write_text(tmp_path / place, "new")
        assert below(tmp_path) == ["file"]

    def test_a_read_only_folder(self):
        with pytest.raises(WorkloadsError, match=r"/proc/1/x.txt can't be written"):
            write_text(Path("/proc/1/x.txt"), "new")  # even root can make no file there

    def test_killed_on_the_way_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "x.txt"
        write_text(path, "old")
        script = (
            "import os; from pathlib import Path; from workloads.harness.records.files import write_text\n"
            "os.fsync = lambda fd: os.kill(os.getpid(), 9)\n"
            f"write_text(Path({str(path)!r}), 'new')"
        )
        assert subprocess.run([sys.executable, "-c", script]).returncode == -9
        assert path.read_text() == "old"
        assert list(read_json_names(tmp_path)) == []  # the scrap that is left is no *.json


def read_json_names(folder):
    return folder.rglob("*.json")


class TestWriting:
    def test_lies_where_the_cells_id_says(self, tmp_path):
        assert record_path(RECORD) == PLACE
        assert write_record(tmp_path, RECORD)
        assert list(read_records(tmp_path)) == [RECORD]

    def test_is_written_once_and_never_changed(self, tmp_path):
        write_record(tmp_path, RECORD)
        assert not write_record(tmp_path, replace(RECORD, wall_s=9.0))
        assert list(read_records(tmp_path)) == [RECORD]

    @pytest.mark.parametrize("text", ["", "\n", "{", '{"schema": 99}', RECORD.to_json()[:-9], "\x00" * 20])
    def test_an_unreadable_record_is_moved_aside_and_measured_again(self, tmp_path, text):
        path = tmp_path / PLACE
        write_text(path, text)
        assert write_record(tmp_path, RECORD)
        assert list(read_records(path)) == [RECORD]
        assert path.with_suffix(".unreadable").read_text() == text

    @pytest.mark.parametrize("hardware", ["..", "../..", "/", "", ".", "a//b", "a/../../b"])
    def test_a_record_from_elsewhere_can_not_leave_the_folder(self, tmp_path, hardware):
        with pytest.raises(WorkloadsError, match="is not a valid name of a folder"):
            write_record(tmp_path / "records", replace(RECORD, hardware=hardware))
        assert below(tmp_path) == []

    def test_a_full_disk_is_reported(self, tmp_path):
        (tmp_path / "a-box").write_text("a file where a folder should be")
        with pytest.raises(
            WorkloadsError, match=r"2.json can't be written \(.*\); name another folder or make room"
        ):
            write_record(tmp_path, RECORD)


ROWS = (
    Operator("aten::conv2d", 6, 0.002, 0.5, 0.0, 0.0, -3 * 2**20, "[[2, 3, 256, 256]]"),
    Operator("aten::relu", 3, 0.001, 0.001, 0.004, 0.25, 1, ""),
)
PROFILED = replace(RECORD, profile=Profile(3, 0.75, "self_cpu_time_total", ROWS))


class TestProfile:
    def test_lies_beside_its_record_as_a_table(self, tmp_path):
        assert write_record(tmp_path, PROFILED)
        assert below(tmp_path) == [str(PLACE), str(PLACE.with_suffix(".profile.txt"))]
        text = (tmp_path / PLACE.with_suffix(".profile.txt")).read_text()
        head, names, _, conv, relu = text.splitlines()
        assert head == "3 steps under the profiler took 750 ms; operators by self CPU time"
        columns = ["operator", "calls", "self CPU", "CPU", "self device", "device", "self memory", "shapes"]
        assert re.split("  +", names) == columns
        assert re.split("  +", conv) == [
            *("aten::conv2d", "6", "2 ms", "500 ms", "–", "–", "-3 MiB", "[[2, 3, 256, 256]]")
        ]
        assert re.split("  +", relu)[:7] == [
            "aten::relu",
            "3",
            "1 ms",
            "1 ms",
            "4 ms",
            "250 ms",
            "9.537e-07 MiB",
        ]

    def test_on_a_gpu_its_kernels_are_counted(self, tmp_path):
        on_gpu = replace(PROFILED.profile, sorted_by="self_device_time_total", kernels=12, busy_s=0.5)
        write_record(tmp_path, replace(PROFILED, profile=on_gpu))
        text = (tmp_path / PLACE.with_suffix(".profile.txt")).read_text()
        assert "operators by self device time; 12 kernels kept the device busy for 500 ms\n" in text

    def test_a_profile_is_shown_with_its_record_and_is_not_a_record(self, tmp_path):
        write_record(tmp_path, PROFILED)
        (read,) = read_records(tmp_path)
        assert read == PROFILED
        assert (tmp_path / PLACE.with_suffix(".profile.txt")).read_text().strip() in detail(read)
        assert "operators by" not in detail(RECORD)

    def test_is_written_once_with_its_record(self, tmp_path):
        write_record(tmp_path, PROFILED)
        assert not write_record(tmp_path, replace(PROFILED, profile=replace(PROFILED.profile, steps=9)))
        assert "3 steps" in (tmp_path / PLACE.with_suffix(".profile.txt")).read_text()

    def test_a_disk_that_is_full_for_it_leaves_no_record(self, tmp_path):
        (tmp_path / PLACE.with_suffix(".profile.txt")).mkdir(parents=True)
        with pytest.raises(WorkloadsError, match=r"2.profile.txt can't be written"):
            write_record(tmp_path, PROFILED)
        assert list(read_records(tmp_path)) == []


class TestReading:
    def test_a_file_with_a_record_a_line(self, tmp_path):
        path = tmp_path / "records.jsonl"
        records = [replace(RECORD, repeat=number) for number in (1, 2, 3)]
        path.write_text("\n\n".join(record.to_json() for record in records))
        assert list(read_records(path)) == records

    def test_bad_lines_are_named_and_the_others_read(self, tmp_path):
        path = tmp_path / "records.jsonl"
        other = json.dumps(json.loads(RECORD.to_json()) | {"schema": 7})
        path.write_bytes("\n".join([RECORD.to_json(), "{", other]).encode() + b"\n\xff\xfe\n")
        first, *errors = read_records(path)
        assert first == RECORD
        assert all(isinstance(error, RecordError) for error in errors)
        assert [str(error).partition(":")[0] for error in errors] == [f"{path}, line {n}" for n in (2, 3, 4)]
        assert all(fact in str(errors[1]) for fact in (str(path), "schema 7", "schema 5"))

    def test_a_line_is_numbered_as_in_an_editor(self, tmp_path):
        path = tmp_path / "records.jsonl"
        path.write_text(f"\n\n{RECORD.to_json()}\n\n{{\n")
        _, error = read_records(path)
        assert str(error).startswith(f"{path}, line 5: ")

    def test_of_a_runs_folder_only_its_records_are_read(self, tmp_path):
        write_record(tmp_path / "records", RECORD)
        for name in ("plan.json", "benchmark_results.json"):
            (tmp_path / name).write_text('{"not": "a record"}')
        assert list(read_records(tmp_path)) == [RECORD]

    def test_a_missing_file_of_records_is_an_error(self, tmp_path):
        with pytest.raises(
            WorkloadsError, match="nowhere does not exist; name a file of records or a run's folder"
        ):
            list(read_records(tmp_path / "nowhere"))

    def test_a_folder_named_like_a_record(self, tmp_path):
        (tmp_path / "x.json").mkdir()
        write_record(tmp_path / "x.json", RECORD)
        assert list(read_records(tmp_path)) == [RECORD]
