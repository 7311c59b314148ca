import errno
import os
import tempfile

import pytest

from workloads.harness.checks import preflight
from workloads.harness.engine.device import UnsupportedError
from workloads.harness.probes import sockets
from workloads.harness.probes.sockets import MOST_BYTES, sockets_fault
from workloads.harness.training.loading import _check_workers


@pytest.fixture
def folder_of():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as room:

        def make(size):
            folder = os.path.join(room, "x" * (size - len(room) - 1))
            os.makedirs(folder, exist_ok=True)
            return folder

        yield make


def test_the_longest_path_that_this_python_can_listen_in(folder_of):
    assert sockets._can_listen(folder_of(MOST_BYTES))
    assert not sockets_fault(folder_of(MOST_BYTES))
    longer = folder_of(MOST_BYTES + 1)
    assert bool(sockets_fault(longer)) is not sockets._can_listen(longer)


def test_bytes_count_and_not_characters(folder_of):
    folder = folder_of(MOST_BYTES - 10) + "/ü" * 4
    os.makedirs(folder)
    assert len(folder) < MOST_BYTES < len(os.fsencode(folder))
    assert bool(sockets_fault(folder)) is not sockets._can_listen(folder)


def test_a_path_that_is_too_long_is_reported_before_loaders_start(monkeypatch, folder_of):
    folder = folder_of(MOST_BYTES + 20)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setattr(sockets, "_can_listen", lambda _: False)  # newer Pythons can
    with pytest.raises(UnsupportedError, match=rf"TMPDIR.* {MOST_BYTES + 20} bytes.* {MOST_BYTES} at most"):
        _check_workers(1, 10)
    _check_workers(0, 10)
    assert preflight.sockets()[0] is False


def test_a_machine_without_semaphores_is_named(monkeypatch):
    """As on AWS Lambda, without /dev/shm: sem_open(3) fails."""

    def refuse():
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("multiprocessing.Lock", refuse)
    with pytest.raises(UnsupportedError, match=r"semaphores in /dev/shm.*\(Function not implemented\)"):
        _check_workers(1, 1)
    _check_workers(0, 1)
