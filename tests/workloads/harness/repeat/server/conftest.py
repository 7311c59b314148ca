import sys

import pytest

from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat


@pytest.fixture
def note(tmp_path, monkeypatch):
    path = tmp_path / "note"
    monkeypatch.setenv("TEST_NOTE", str(path))
    return path


@pytest.fixture
def run(box_lock):
    """Run a repeat by a given command or the real one; keep its standard error."""
    said = []

    def start(repeat, *script):
        command = (sys.executable, "-c", *script) if script else (sys.executable, "-m", "workloads")
        with whole_box() as lock:
            return run_repeat(repeat, lock, said.append, command)

    start.said = said
    return start
