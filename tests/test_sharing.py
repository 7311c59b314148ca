import subprocess
import sys

import pytest

from tests.ladder import TESTS
from tests.sharing import SERVICE_OF, scope_of

CONFTEST = """
import pytest

def told(word):
    with open("log", "a") as log:
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
"""
FILES = {
    "test_a.py": "def test_first(pool): told('first')\ndef test_without(): told('without')",
    "test_b.py": "def test_second(prefect): told('second')\ndef test_last(): told('last')",
    "test_c.py": "def test_other(): told('other')",
    "test_d.py": "def test_again(prefect): told('again')",
}


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


def test_a_service_ends_with_the_last_file_that_uses_it(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (tmp_path / name).write_text(f"from conftest import told\n{text}\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.sharing", "-q", f"--rootdir={tmp_path}", *FILES]
    path = {"PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    words = "starts, first, without, pool ends, second, last, ends, other, starts, again, ends"
    assert (tmp_path / "log").read_text().splitlines() == words.split(", ")
