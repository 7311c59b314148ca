import re
from dataclasses import replace

import pytest

from tests.workloads.command_line import command
from workloads.__main__ import main
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Record, Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)

SUITE = """
repeats = 2
quick = true
timeout_s = 60
[[cases]]
workload = "matmul"
size = { n = 64 }
soak_s = 1.5
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
        assert {r.case.workload: r.sustained_share is not None for r in records} == {
            "matmul": True,
            "edge_detection": False,
        }

    def test_records_go_to_standard_output_and_a_second_time_changes_nothing(
        self, monkeypatch, tmp_path, capsys
    ):
        (tmp_path / "mine.toml").write_text(SUITE)
        ended = iter(range(100))

        def measure(repeat, *_, forks):
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
        assert "already exists" in capsys.readouterr().err

    def test_a_folder_that_can_not_be_written_is_reported_before_anything_is_measured(
        self, monkeypatch, tmp_path, capsys
    ):
        (tmp_path / "mine.toml").write_text(SUITE)
        measured = []
        monkeypatch.setattr(
            "workloads.harness.repeat.series.measure_or_skip",
            lambda repeat, *_, forks: measured.append(repeat),
        )
        out = tmp_path / "mine.toml" / "records"
        assert main(["suite", str(tmp_path / "mine.toml"), "--out", str(out)]) == 2
        assert re.fullmatch(
            r"error: .* can't be written \(.*\); name another folder or make room\n", capsys.readouterr().err
        )
        assert measured == []
