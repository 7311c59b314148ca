import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.workloads.command_line import ROOT, command
from tests.workloads.harness.records.timings import FULL, timing
from workloads.__main__ import main
from workloads.command import parser
from workloads.harness.records.case import Case
from workloads.harness.records.files import read_records, write_record
from workloads.harness.records.record import Record, Verdict
from workloads.harness.registry import all_workloads
from workloads.harness.repeat.suite import suite_names

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)


def records_at(seconds, hardware="a-box", case=FULL.case, **changes):
    """Return three ok repeats around a time per step."""
    return [
        Record("r", hardware, case, n, Verdict.OK, wall=timing(mean_s=seconds * (1 + n / 1000)), **changes)
        for n in (1, 2, 3)
    ]


def written(folder, records):
    for record in records:
        write_record(folder, record)
    return folder


class TestList:
    def test_the_list_names_every_workload_and_suite(self, capsys):
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        for name in [*all_workloads(), *suite_names()]:
            assert name in out
        assert "    channels: 32, 64, 76, 128, 256; 128 by default\n" in out
        assert "    workers: 0, 1, 2, 4; optional\n" in out

    def test_the_list_is_printed_as_json(self, capsys):
        assert main(["list", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found.keys() == all_workloads().keys()
        assert found["matmul"]["tiny"] == {"n": 64}
        assert 5000 in found["matmul"]["sizes"]["n"]
        assert (found["matmul"]["optional"], found["ddpm"]["optional"]) == ({}, {"channels": 128})

    def test_a_reader_that_leaves_early_gets_no_traceback(self):
        script = f"{sys.executable} -m workloads list --json | true; exit ${{PIPESTATUS[0]}}"
        found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT)
        assert found.stderr == ""


class TestShow:
    def test_a_folder_is_a_table(self, tmp_path, capsys):
        records = [
            FULL,
            replace(FULL, repeat=3, verdict=Verdict.CRASHED, reasons=("it fell over",), wall=None),
        ]
        assert main(["show", str(written(tmp_path, records))]) == 0
        out = capsys.readouterr().out
        assert len(out.splitlines()) == 4
        assert re.search(r"a-box/matmul/n=5000/fp32#3 .* crashed +it fell over", out)

    def test_one_record_is_shown_in_full(self, tmp_path, capsys):
        assert main(["show", str(written(tmp_path, [FULL]))]) == 0
        out = capsys.readouterr().out
        for words in (
            "noisy",
            "2 s",
            "1 s",
            "end to end",
            "2.75 s",
            "250 GFLOP/s",
            "phase import",
            "1.5 s",
            "steal_share",
        ):
            assert words in out
        assert "null: measured on the CPU" in out

    def test_as_json_lines_that_can_be_read_again(self, tmp_path, capsys):
        records = records_at(1.0)
        assert main(["show", "--json", str(written(tmp_path, records))]) == 0
        (tmp_path / "again.jsonl").write_text(capsys.readouterr().out)
        assert list(read_records(tmp_path / "again.jsonl")) == records

    def test_an_unreadable_record_is_named_and_the_others_shown(self, tmp_path, capsys):
        written(tmp_path, records_at(1.0))
        (tmp_path / "bad.json").write_text('{"schema": 99}')
        assert main(["show", str(tmp_path)]) == 1
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 5
        assert re.fullmatch(r"error: .*bad.json, line 1: .*schema 99[^\n]+\n", err)

    @pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["compare", "."]])
    def test_an_empty_folder_is_an_error(self, tmp_path, monkeypatch, capsys, command):
        monkeypatch.chdir(tmp_path)
        assert main([*command, str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert re.fullmatch(r"error: .* holds no records; name a file of records or a run's folder\n", err)


class TestCompare:
    @pytest.mark.parametrize(
        ("seconds", "verdict"), [(0.5, "2x .* faster"), (2.0, r"0.5x .* slower"), (1.0, "1x .* undecided")]
    )
    def test_says_who_is_faster(self, tmp_path, capsys, seconds, verdict):
        base = written(tmp_path / "base", records_at(1.0))
        other = written(tmp_path / "other", records_at(seconds, "b-box"))
        assert main(["compare", str(base), str(other)]) == 0
        assert re.search(rf"matmul/n=5000/fp32 .* {verdict}", capsys.readouterr().out)

    def test_only_ok_records_of_the_same_case_are_paired(self, tmp_path, capsys):
        base = written(tmp_path / "base", records_at(1.0))
        wrong = [replace(r, verdict=Verdict.WRONG) for r in records_at(0.1)]
        larger = records_at(1.0, case=Case.of("matmul", {"n": 6000}))
        other = written(tmp_path / "other", wrong + larger)
        assert main(["compare", str(base), str(other)]) == 0
        out = capsys.readouterr().out
        assert re.search("n=5000/fp32 +ok +no valid record .* unpaired", out)
        assert re.search("n=6000/fp32 +no valid record +ok .* unpaired", out)


class TestCheck:
    @pytest.mark.parametrize(("fit", "code"), [(True, 0), (False, 1)])
    def test_the_exit_code_says_whether_the_machine_is_fit(self, monkeypatch, capsys, fit, code):
        monkeypatch.setattr(
            parser, "findings", lambda: [(True, "torch is here"), (fit, "others are busy: stop them")]
        )
        assert main(["check"]) == code
        assert capsys.readouterr().out.splitlines() == [
            "ok    torch is here",
            f"{'ok  ' if fit else 'warn'}  others are busy: stop them",
        ]

    def test_a_check_of_this_machine_prints_its_rows(self, box_lock):
        code, out, err = command("check")
        assert code in (0, 1)
        assert err == ""
        assert re.search(r"^ok    torch 2\.", out, re.M)
        assert re.search(r"GiB of memory is free", out)
