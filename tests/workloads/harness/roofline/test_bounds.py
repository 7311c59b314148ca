import json
from dataclasses import replace

import pytest

from tests.workloads.harness.roofline.roofline_records import FLOPS, blur, profile, record
from workloads.__main__ import main
from workloads.harness.records.record import Verdict
from workloads.harness.roofline.bounds import bounds, roofline_json, roofline_text
from workloads.harness.roofline.roofline import UNEXPLAINED


class TestLoader:
    def records(self, with_loader_s):
        plain = record("resnet_train", {"batch": 8}, seconds=1.0, flops=0.9 * FLOPS)
        size = {"batch": 8, "workers": 2}
        return [plain, record("resnet_train_loader", size, seconds=with_loader_s, flops=0.9 * FLOPS)]

    def test_a_slow_loader_binds(self):
        made = self.records(4.0)
        found = {row.record.case.workload: row.bound for row in bounds(made)}
        assert found["resnet_train_loader"].by == "host"
        assert found["resnet_train_loader"].share == pytest.approx(0.75)
        assert "host" not in found["resnet_train"].shares

    def test_a_quick_one_does_not(self):
        assert bounds(self.records(1.05))[1].bound.shares["host"] == pytest.approx(1 - 1 / 1.05)

    def test_a_loader_faster_than_no_loader_takes_no_negative_time(self):
        assert bounds(self.records(0.9))[1].bound.shares["host"] == 0.0

    def test_a_record_of_a_workload_that_is_gone_has_no_counterpart(self):
        plain, loader = self.records(4.0)
        gone = [replace(r, case=replace(r.case, workload=f"gone_{r.case.workload}")) for r in (plain, loader)]
        assert [row.bound.shares.get("host") for row in bounds(gone)] == [None, None]

    @pytest.mark.parametrize("changes", [{"hardware": "other"}, {"threads": 7}, {"environment_id": "x"}])
    def test_another_machines_record_is_no_counterpart(self, changes):
        plain, loader = self.records(4.0)
        assert "host" not in bounds([replace(plain, **changes), loader])[1].bound.shares


class TestTable:
    def made(self):
        shared = record("edges", {"pixels": 8}, seconds=1.0, verdict=Verdict.SHARED)
        return [
            record("matmul", {"n": 2000}, seconds=1.0, flops=FLOPS, nbytes=1.0),
            *(replace(blur(seconds=s), repeat=i) for i, s in enumerate((0.5, 0.4, 9.0))),
            shared,
        ]

    def test_a_row_for_each_cell_with_its_middle_repeat(self):
        rows = {row.record.case.workload: row for row in bounds(self.made())}
        assert list(rows) == ["matmul", "gaussian_blur"]
        assert rows["gaussian_blur"].record.compute_s == 0.5

    def test_the_profile_of_any_repeat_serves_the_median_repeat(self):
        made = [record(seconds=s, device_s=s, device="cuda", repeat=i) for i, s in enumerate((2.0, 1.0, 1.1))]
        made[0] = replace(made[0], profile=profile(1, 0.11))
        (row,) = bounds(made)
        assert (row.record.compute_s, row.bound.by) == (1.1, "host")
        assert row.bound.share == pytest.approx(0.9)

    def test_a_roofline_is_printed_in_words(self):
        text = roofline_text(self.made())
        assert "compute fp32        104 GFLOP/s    a-box/matmul/n=2000/fp32#1" in text
        assert "100 %" in next(line for line in text.splitlines() if line.startswith("a-box/matmul"))
        assert text.count("memory_bandwidth") == 1  # missing for both cells, said once
        assert text.endswith("1 cell has no valid record and can't be placed")

    def test_a_roofline_is_printed_as_json(self):
        found = json.loads(roofline_json(self.made()))
        assert [cell["by"] for cell in found["cells"]] == ["compute", UNEXPLAINED]
        assert found["ceilings"][0]["compute"][0][1]["value"] == FLOPS
        assert found["ceilings"][0]["memory"] is None

    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_the_roofline_command_reads_a_file_of_records(self, tmp_path, capsys, options):
        path = tmp_path / "records.jsonl"
        path.write_text("\n".join(made.to_json() for made in self.made()))
        assert main(["roofline", str(path), *options]) == 0
        assert "gaussian_blur/pixels=64/fp32" in capsys.readouterr().out

    def test_a_folder_without_records(self, tmp_path, capsys):
        assert main(["roofline", str(tmp_path)]) == 2
        assert "holds no records" in capsys.readouterr().err
