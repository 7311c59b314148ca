import io

import pytest

from workloads.command.output import Records, close
from workloads.harness.records.case import Case
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat


def record(number):
    case = Case.of("matmul", {"n": 64})
    return Repeat("a-run", "a-box", case, repeat=number).failed(Verdict.TIMEOUT, "a reason")


def test_records_after_a_failed_write_are_kept_in_a_file(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    output = Records()
    codes = []
    with pytest.raises(OSError, match="No space"), open("/dev/full", "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        for number in (1, 2):
            output.put(record(number))
        codes.append(close(0))
    assert [item.repeat for item in read_records(output.kept)] == [1, 2]
    assert output.kept.parent == tmp_path
    assert str(output.kept) in capsys.readouterr().err
    assert codes == [1]


def test_a_folder_that_can_not_be_written_loses_none_either(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    output = Records(tmp_path / "taken")
    output.put(record(1))
    assert [item.repeat for item in read_records(output.kept)] == [1]


def test_printed_records_leave_no_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout", out := io.StringIO())
    output = Records()
    output.put(record(1))
    assert (out.getvalue().count("\n"), output.kept, close(0)) == (1, None, 0)
    assert not list(tmp_path.iterdir())
