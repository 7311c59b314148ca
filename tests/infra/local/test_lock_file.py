import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.errors import InfraError
from infra.local.lock_file import StackLock

NOTE = {"api_url": "x", "pools": ["local"], "created": 1.0}


def test_only_one_has_the_folder(tmp_path: Path):
    first, second = StackLock(tmp_path), StackLock(tmp_path)
    assert first.take()
    assert not second.take()
    assert f"process {os.getpid()} (" in second.holder()
    first.release()
    assert second.take()
    second.release()


def test_the_lock_ends_with_its_holder_even_by_kill_9(tmp_path: Path):
    code = f"from infra.local.lock_file import StackLock; from pathlib import Path; l = StackLock(Path({str(tmp_path)!r}))"
    root = Path(__file__).parents[3]
    program = [sys.executable, "-c", f"{code}; print(l.take(), flush=True); input()"]
    process = subprocess.Popen(program, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"True\n"
    assert not StackLock(tmp_path).take()
    process.kill()
    process.wait()
    assert StackLock(tmp_path).take()


def test_the_note_is_there_while_its_writer_holds_the_folder(tmp_path: Path):
    stack_lock = StackLock(tmp_path)
    assert stack_lock.read() is None
    assert stack_lock.take()
    stack_lock.write("http://127.0.0.1:1/api", {"local": "process", "ssh": "ssh"})
    assert StackLock(tmp_path).read() == "http://127.0.0.1:1/api"
    assert StackLock(tmp_path).pools() == {"local", "ssh"}
    stack_lock.retract()
    assert StackLock(tmp_path).read() is None
    assert StackLock(tmp_path).pools() == set()
    assert not StackLock(tmp_path).take()
    stack_lock.release()


def test_a_note_of_a_process_that_has_died_is_not_believed(tmp_path: Path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "stack.json").write_text(json.dumps(NOTE | {"pid": gone.pid}))
    assert StackLock(tmp_path).read() is None


def test_a_note_whose_process_number_was_used_again_is_not_believed(tmp_path: Path):
    (tmp_path / "stack.json").write_text(json.dumps(NOTE | {"pid": os.getpid()}))
    assert StackLock(tmp_path).read() is None


def test_a_note_that_is_cut_short_is_not_believed(tmp_path: Path):
    (tmp_path / "stack.json").write_text('{"api_url": "x", "pi')
    assert StackLock(tmp_path).read() is None


def test_another_stack_does_not_remove_the_note(tmp_path: Path):
    ours, theirs = StackLock(tmp_path), StackLock(tmp_path)
    assert ours.take()
    ours.write("http://127.0.0.1:1/api", ["local"])
    theirs.retract()
    theirs.release()
    assert theirs.read()
    ours.release()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(InfraError, match=r"\(No locks available\).*--state"):
        StackLock(tmp_path).take()
