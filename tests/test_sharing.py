"""Files that share a service are run by one process, one after another, and the service ends before others begin."""

import subprocess
import sys

import pytest

from tests.ladder import TESTS
from tests.sharing import SERVICE_OF, scope_of

USERS = """
import pathlib, pytest

def told(word):
    with open({log!r}, "a") as log:
        print(word, file=log)

@pytest.fixture(scope="session")
def prefect():
    told("starts")
    yield
    told("ends")

@pytest.fixture(scope="module")
def pool(prefect):
    yield
    told("pool ends")

def test_first(pool): told("first")
def test_second(prefect): told("second")
def test_other(): told("other")
def test_again(prefect): told("again")
"""


@pytest.mark.parametrize("file", sorted(SERVICE_OF))
def test_a_file_is_there(file):
    assert (TESTS.parent / file).exists()


def test_a_test_stays_with_its_file_or_with_all_that_share_its_service():
    assert scope_of("tests/tasks/test_x.py::TestX::test_y[a::b]") == "tests/tasks/test_x.py"
    bench, nights = (
        "tests/flows/server/test_bench.py::test_x",
        "tests/flows/nightly/server/test_nights.py::test_y",
    )
    assert scope_of(bench) == scope_of(nights) == "session_bench"


def test_a_service_ends_with_the_last_test_that_uses_it(tmp_path):
    log = tmp_path / "log"
    (tmp_path / "test_users.py").write_text(USERS.format(log=str(log)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.sharing",
        "-q",
        f"--rootdir={tmp_path}",
        "test_users.py",
    ]
    path = {"PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    words = ["starts", "first", "second", "pool ends", "ends", "other", "starts", "again", "ends"]
    assert log.read_text().splitlines() == words
