from pathlib import Path

import psutil
import pytest

from tests.workloads.harness.repeat.dying import gone
from workloads.harness.records.record import Record
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat

GROUPS = Path(__file__).parents[2] / "groups"


@pytest.fixture
def groups(use_workloads, box_lock):
    use_workloads(GROUPS)


@pytest.fixture
def note(tmp_path, monkeypatch):
    folder = tmp_path / "ranks"
    folder.mkdir()
    monkeypatch.setenv("TEST_NOTE", str(folder))
    return folder


@pytest.fixture
def run(groups):
    """Return a function that measures a repeat like a suite and checks that no process remains."""
    said = []

    def start(repeat):
        with whole_box() as lock:
            record = run_repeat(repeat, lock, said.append)
        assert not [p for p in psutil.process_iter(["cmdline"]) if mine(p, repeat)]
        assert Record.from_json(record.to_json()) == record
        return record

    start.said = said
    return start


def mine(process, repeat):
    words = " ".join(process.info["cmdline"] or [])
    return f'"{repeat.case.workload}"' in words and f'"{repeat.run}"' in words and not gone(process.pid)
