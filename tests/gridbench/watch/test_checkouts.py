import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gridbench import main
from gridbench.watch import checkouts
from gridbench.watch.bisect import searched
from gridbench.watch.bisect_request import BisectRequest
from gridbench.watch.checkouts import check_out, kept_until_the_end, script_folder, script_versions
from gridbench.watch.versions import versions_between
from tasks.errors import GridbenchError
from tasks.planning.planner import make_plan
from tasks.regressions.bisect import FirstBadVersion
from tasks.store.address import ResultsAddress
from tasks.store.store import Store
from tests.tasks.examples.records import record
from workloads.harness.records.parts import Control

CASE = "train/batch=4/own"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A user's repository of six commits, whose script slows in the fourth, and its suite."""
    monkeypatch.setattr(checkouts, "FOLDER", tmp_path / "checkouts")
    code = tmp_path / "repository" / "code"
    code.mkdir(parents=True)

    def git(*words):
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=code, check=True, capture_output=True)

    git("init", "-b", "main")
    for number in range(1, 7):
        (code / "train.py").write_text(f"seconds = {1.0 if number < 4 else 1.1}  # {number}")
        git("add", "-A")
        git("commit", "-m", f"change {number}")
        git("tag", f"t{number}")
    suite = tmp_path / "mine.toml"
    suite.write_text(
        f'[[scripts]]\nrun = "train.py {{batch}}"\nfolder = "{code}"\nsize = {{ batch = [4, 8] }}\n'
    )
    return code, str(suite)


def test_the_commit_that_made_a_script_slower_is_found_by_measuring_its_code(repository, tmp_path):
    code, suite = repository
    names, commits = versions_between("t1", "main", None, code)
    assert commits and len(names) == 6
    versions = script_versions(names, code)
    request = BisectRequest(
        CASE, "local-cpu", suite, versions, 5, 5.0, ResultsAddress(tmp_path / "results"), "bisect-1", (), True
    )
    codes = {}

    def seconds_of(script):
        return float((Path(script.folder) / "train.py").read_text().split()[2])

    def measure(run_request):
        """In place of the flow: time a repeat by its folder's script."""
        version = run_request.night.version
        check_out(version, code)
        plan = make_plan(run_request)
        plan = plan.model_copy(update={"run": f"{len(codes):02d}-{plan.run}"})
        ((script, other),) = {(planned.script, planned.partner) for planned in plan.cases}
        codes.setdefault(version.name, set()).add(script.code)
        codes.setdefault(version.partner.name, set()).add(other.code)
        seconds, control = seconds_of(script), Control("", "ok", (), seconds_of(other))
        store = Store.create(tmp_path / "results", plan)
        for repeat in plan.repeats_on(plan.hardware[0]):
            noise = 1 + 0.002 * (repeat.repeat % 5 - 2)
            made = record(seconds * noise, repeat.case, repeat.hardware, repeat.repeat, run=plan.run)
            assert repeat.scripts == (script, other)
            store.add(replace(made, control=control))
        return plan.run

    with kept_until_the_end(versions, code):
        search, step = searched(request, iter([]), measure)
        assert isinstance(step, FirstBadVersion) and search.versions[step.first_bad] == names[3]
        assert not step.doubt and len(set().union(*codes.values())) == len(codes)
        assert list(checkouts.FOLDER.iterdir())
    assert not list(checkouts.FOLDER.iterdir())
    worktrees = subprocess.run(["git", "worktree", "list"], cwd=code, capture_output=True, text=True)
    assert len(worktrees.stdout.splitlines()) == 1, "the repository forgets them"


def test_the_command_takes_the_commits_of_the_script_and_leaves_no_checkout(repository, monkeypatch, capsys):
    _, suite = repository
    words = ["gridbench", "bisect", CASE, "t1", "t6", "--on", "local-cpu", "--suite", suite, "--dry-run"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code and "6 versions" in capsys.readouterr().out
    assert not list(checkouts.FOLDER.iterdir())


def test_versions_can_be_named_and_a_mistake_is_one_sentence(repository):
    code, suite = repository
    assert script_folder(CASE, suite) == code and script_folder("train/own", suite) is None
    (version,) = script_versions(["t2"], code)
    check_out(version, code)
    assert (Path(version.folder) / "train.py").read_text().endswith("# 2")
    with pytest.raises(GridbenchError, match=r"^version 't9' is not a commit of a git checkout in "):
        script_versions(["t9"], code)
