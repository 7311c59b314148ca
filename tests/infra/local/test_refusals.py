import os
import signal
from collections import namedtuple
from pathlib import Path

import pytest

from infra.local.errors import LocalStackError
from infra.local.lock_file import StackLock
from infra.local.stack import LocalStack, StopSignals, running_api

Usage = namedtuple("Usage", "total used free")


def test_a_local_stack_is_refused_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**9, 10**9, 5 * 10**6))
    with pytest.raises(LocalStackError, match="5 MB left"), LocalStack(tmp_path):
        pass
    assert StackLock(tmp_path).take()


def test_a_folder_whose_holder_does_not_answer(tmp_path: Path):
    holder = StackLock(tmp_path)
    assert holder.take()
    with (
        pytest.raises(LocalStackError, match=f"held by process {os.getpid()} "),
        LocalStack(tmp_path, start_s=0.3),
    ):
        pass
    assert not StackLock(tmp_path).take()


def test_no_stack_no_api(tmp_path: Path):
    assert running_api(tmp_path) is None
    with pytest.raises(LocalStackError, match="not been started"):
        LocalStack(tmp_path).check()


def test_handlers_are_given_back_after_a_refusal(tmp_path: Path):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "state"
    with pytest.raises(LocalStackError, match=r"can't be written \(Not a directory\)"), LocalStack(folder):
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


def test_a_stop_signal_is_an_exit_first_and_then_only_hurries():
    signals = StopSignals()
    signals.take()
    try:
        with pytest.raises(SystemExit) as exit_info:
            signal.raise_signal(signal.SIGTERM)
        assert exit_info.value.code == 143
        signals.closing()
        assert not signals.hurry
        signal.raise_signal(signal.SIGINT)
        assert signals.hurry
    finally:
        signals.give_back()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
