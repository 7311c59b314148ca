import os
import sys
import tempfile
from dataclasses import replace

import pytest

from tasks.errors import GridbenchError
from tasks.travel import cache, job_setup
from tasks.travel.code_download import unpack_code
from tasks.travel.environment import Environment
from tasks.travel.job_setup import JobSetup, prepared
from tasks.travel.packing import pack
from tasks.travel.run_code import JobCode
from tasks.travel.tree import hex_of, take
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script, ScriptRun

COMMAND = (sys.executable, "-m", "workloads")
CASE = Case.of("matmul", {"n": 8})


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch, box_lock):
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "kept"))
    return tmp_path


def of(*scripts):
    return [Repeat("a-run", "a-box", CASE, repeat=n, script=script) for n, script in enumerate(scripts, 1)]


def nothing(tree_id):
    raise GridbenchError("nothing was sent")


def test_here_a_script_runs_in_its_own_folder(code):
    (repeat,) = of(Script(("train.py",), folder=str(code), code=take(code).id))
    with prepared([repeat], COMMAND, JobCode(), nothing, print) as came:
        assert came.repeat(repeat) == repeat and came.command(repeat, ("other",)) == COMMAND
        record = repeat.failed(Verdict.OK, "fine", wall_s=2.0)
        assert came.noted(repeat, record) == record
    elsewhere = prepared(of(Script(("a.py",), folder="/not/here")), COMMAND, JobCode(), nothing, print)
    with pytest.raises(GridbenchError, match="/not/here is not on this machine, and no copy"), elsewhere:
        pass


def test_a_machine_without_a_writable_folder_is_reported(code, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    way = prepared(of(Script(("train.py",), folder=str(code))), COMMAND, JobCode(), nothing, print)
    with pytest.raises(GridbenchError, match=r"nothing can be written to .*/full \(No such file"), way:
        pass


def test_a_copy_and_its_written_files_are_deleted_with_the_job(code):
    tree = take(code)
    (repeat,) = of(Script(("train.py",), folder="/not/here", code=tree.id))
    for _ in range(2):
        with prepared([repeat], COMMAND, JobCode((tree.id,)), lambda _: pack(tree), print) as came:
            folder = came.repeat(repeat).script.folder
            assert take(folder).id == tree.id and not os.path.exists(f"{folder}/checkpoint.bin")
            open(f"{folder}/checkpoint.bin", "w").close()
        assert not os.path.exists(folder)


def test_packages_make_another_interpreter_that_finds_ours(code, monkeypatch):
    (code / "src").mkdir()
    made = Environment(code / "bin" / "python", ("leaf==1.5",))
    monkeypatch.setattr(job_setup, "environment_for", lambda folder, file, python, say: made)
    script = Script(("train.py",), folder=str(code), packages="requirements.txt")
    first, second = of(script, script)
    with prepared([first, second], COMMAND, JobCode(), nothing, print) as came:
        assert came.command(first, COMMAND) == (str(made.python), "-m", "workloads")
        before = dict(os.environ)
        with came.environment(first):
            assert os.environ["PYTHONPATH"].split(":")[:2] == [str(code / "src"), os.getcwd()]
            assert os.environ["PATH"].startswith(f"{code}/bin:")
        assert dict(os.environ) == before
        records = [
            replace(r.failed(Verdict.OK, ""), script=ScriptRun(("a",)), wall_s=2.0) for r in (first, second)
        ]
        records[0] = replace(records[0], started_at="2026-01-01T00:00:10+00:00", phases_s={"import": 2.0})
        came.phases_s[script] = {"packages": 7.0}
        noted = [came.noted(r, record) for r, record in zip((first, second), records, strict=True)]
    assert [record.script.installed_packages for record in noted] == [("leaf==1.5",)] * 2
    assert noted[0].phases_s == {"packages": 7.0, "import": 2.0} and noted[0].wall_s == 9.0
    assert noted[0].started_at == "2026-01-01T00:00:03+00:00" and noted[1].wall_s == 2.0


def test_a_folder_of_workloads_is_set_for_the_job(code, monkeypatch):
    tree = take(code)
    monkeypatch.delenv(job_setup.WORKLOADS, raising=False)
    with prepared(of(None), COMMAND, JobCode((), tree.id), lambda _: pack(tree), print) as came:
        assert take(os.environ[job_setup.WORKLOADS]).id == tree.id
        (repeat,) = of(None)
        record = came.noted(repeat, repeat.failed(Verdict.OK, "fine", wall_s=1.0))
        assert list(record.phases_s) == ["code"] and record.wall_s > 1.0
    assert job_setup.WORKLOADS not in os.environ


def test_nothing_is_done_for_workloads_of_ours():
    with prepared(of(None), COMMAND, JobCode(), nothing, print) as came:
        assert came == JobSetup()


def test_the_oldest_cached_code_is_deleted(code, machine, monkeypatch):
    monkeypatch.setitem(cache.MOST, cache.CODE, 2)
    for text in ("one", "two", "three"):
        (code / "train.py").write_text(text)
        tree = take(code)
        unpack_code(tree.id, machine / text, {tree.id: pack(tree)}.__getitem__)
        os.utime(machine / "kept" / "code" / f"{hex_of(tree.id)}.pack", (1, len(text)))
    assert len(list((machine / "kept" / "code").iterdir())) == 2


def test_code_that_can_not_be_kept_runs_all_the_same(code, machine, monkeypatch):
    (machine / "kept").write_text("no folder")
    tree = take(code)
    unpack_code(tree.id, machine / "there", lambda _: pack(tree))
    assert take(machine / "there").id == tree.id
