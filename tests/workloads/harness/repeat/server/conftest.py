"""Runs one repeat in a process of its own."""

import sys

import pytest

from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat


@pytest.fixture
def note(tmp_path, monkeypatch):
    """Where a workload writes its process ids as soon as it has come to its end."""
    path = tmp_path / "note"
    monkeypatch.setenv("TEST_NOTE", str(path))
    return path


@pytest.fixture
def run(box_lock):
    """Runs a repeat by a command of the test's own, or by the real one; its standard error is kept."""
    said = []

    def start(repeat, *script):
        command = (sys.executable, "-c", *script) if script else (sys.executable, "-m", "workloads")
        with whole_box() as lock:
            return run_repeat(repeat, lock, said.append, command)

    start.said = said
    return start
