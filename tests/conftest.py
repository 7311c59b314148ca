"""Shared by all tests: their levels, one hypothesis profile, and no settings of the machine."""

import os
import signal
import sys
import tempfile
import threading

import pytest
from hypothesis import settings

from tests import sharing
from tests.ladder import MARKERS, place

pytest_plugins = ["tests.emulators.fixtures"]

# The same examples every time: so that only a change of the code changes a result. `--hypothesis-profile=search` draws new ones.
settings.register_profile("gridbench", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=50)
settings.load_profile("gridbench")
# What Prefect has started in this process is not a forked child's to end: a data loader's worker would fail there.
os.register_at_fork(after_in_child=lambda: threading._threading_atexits.clear())
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
for name in [name for name in os.environ if name.startswith(("PREFECT_", "GRIDBENCH_"))]:
    del os.environ[name]
os.environ["GRIDBENCH_FITS"] = "off"  # predicting memory takes seconds: the tests of it switch it on
os.environ["GRIDBENCH_ROOF"] = tempfile.mkdtemp(prefix="gridbench-roof-")  # no other run's, nor the user's
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"  # a test that wants instance metadata brings its own


def pytest_configure(config):
    config.pluginmanager.register(sharing)
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(items):
    place(items)  # the longest tests begin first, so that the run does not wait for them at the end


@pytest.fixture(autouse=True)
def no_session_of_boto3():
    """Forget boto3's session, which keeps its first client's credentials."""
    yield
    if boto3 := sys.modules.get("boto3"):
        boto3.DEFAULT_SESSION = None


@pytest.fixture
def box_lock(tmp_path, monkeypatch):
    """A private box lock, so that parallel tests don't wait for each other."""
    path = tmp_path / "box.lock"
    monkeypatch.setenv("GRIDBENCH_BOX_LOCK", str(path))
    return path
