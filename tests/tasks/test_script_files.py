import asyncio

import pytest

import tasks.start
from tasks.errors import GridbenchError
from tasks.planning.request import RunRequest
from tasks.script_files import check_files, keep_files
from tasks.store.store import Store
from tests.tasks.examples.scripts import plan_of


@pytest.fixture
def store(tmp_path):
    store = Store.create(tmp_path / "results", plan_of(tmp_path, run="a-run"))
    keep_files(store)
    return store


def test_files_that_a_script_wrote_are_no_change_of_its_code(store, tmp_path):
    check_files(store)
    (tmp_path / "code" / "checkpoint.pt").write_text("weights")
    check_files(store)


def test_changed_code_is_refused_with_the_names_of_its_files(store, tmp_path):
    (tmp_path / "code" / "train.py").write_text("print('another step')\n")
    with pytest.raises(
        GridbenchError,
        match=r"differs from the code that run a-run was planned with, \w{12} \(train\.py\): restore",
    ):
        asyncio.run(tasks.start.open_store(RunRequest(resume="a-run", results=str(store.folder.parent))))
    (tmp_path / "code" / "train.py").unlink()
    with pytest.raises(GridbenchError, match=r"\(train\.py\): bring that back|has no file"):
        check_files(store)


def test_a_mode_counts_and_machines_elsewhere_have_their_own_copy(store, tmp_path):
    (tmp_path / "code" / "train.py").chmod(0o755)
    with pytest.raises(GridbenchError, match=r"\(train\.py\)"):
        check_files(store)
    away = plan_of(tmp_path, run="away", hardware=["aws-c5.2xlarge"])
    elsewhere = Store.create(tmp_path / "results", away)
    (tmp_path / "code" / "train.py").write_text("print('another step')\n")
    check_files(elsewhere)


def test_a_run_without_a_list_of_files_goes_on_with_the_same_code_alone(tmp_path):
    store = Store.create(tmp_path / "results", plan_of(tmp_path, run="a-run"))
    check_files(store)
    (tmp_path / "code" / "checkpoint.pt").write_text("weights")
    with pytest.raises(GridbenchError, match=r"was planned with, \w{12}: restore it"):
        check_files(store)
