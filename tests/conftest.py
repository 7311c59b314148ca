"""Shared by all tests: one hypothesis profile, and no setting of the machine's that could leak in."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("gridbench", deadline=None, max_examples=50)
settings.load_profile("gridbench")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
for name in [name for name in os.environ if name.startswith(("PREFECT_", "GRIDBENCH_"))]:
    del os.environ[name]


@pytest.fixture
def box_lock(tmp_path, monkeypatch):
    """A box of this test's own, so that tests that run side by side don't wait for one another."""
    path = tmp_path / "box.lock"
    monkeypatch.setenv("GRIDBENCH_BOX_LOCK", str(path))
    return path
