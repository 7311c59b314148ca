"""The lock on a state folder, with the holder's API address."""

import fcntl
import json
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from infra.errors import InfraError

CLOCK_S = 5.0  # setting the clock shifts the creation times of processes


class _Note(NamedTuple):
    api_url: str
    pools: frozenset[str]


class StackLock:
    """`stack.lock`, held by the stack's process, and `stack.json` with its address."""

    def __init__(self, state: Path) -> None:
        self._lock_file = state / "stack.lock"
        self._note = state / "stack.json"
        self._lock: int | None = None

    def take(self) -> bool:
        """Become the holder; return False if another process is."""
        lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except OSError as error:  # such as ENOLCK of NFS without a lock service
            os.close(lock)
            raise InfraError(
                f"The state folder {self._lock_file.parent} can't be locked ({error.strerror}): its file system has no "
                "locks. Name a folder on a local disk by --state."
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock
        return True

    def release(self) -> None:
        self.retract()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def retract(self) -> None:
        """Delete the note, so that no other process joins."""
        if self._lock is not None:
            self._note.unlink(missing_ok=True)

    def write(self, api_url: str, pools: Collection[str]) -> None:
        me = {"pid": os.getpid(), "created": psutil.Process().create_time()}
        note = {"api_url": api_url, "pools": [*pools], **me}
        draft = self._note.with_suffix(".part")
        draft.write_text(json.dumps(note))
        draft.replace(self._note)

    def read(self) -> str | None:
        """Return the API in the note, if its writer still lives."""
        note = self._read()
        return note.api_url if note else None

    def pools(self) -> frozenset[str]:
        note = self._read()
        return note.pools if note else frozenset()

    def _read(self) -> _Note | None:
        with suppress(OSError, ValueError, KeyError, TypeError, psutil.Error):
            note = json.loads(self._note.read_text())
            if abs(psutil.Process(note["pid"]).create_time() - note["created"]) < CLOCK_S:
                return _Note(str(note["api_url"]), frozenset(note["pools"]))
        return None

    def holder(self) -> str:
        with suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int(self._lock_file.read_text()))
            return f"process {process.pid} ({' '.join(process.cmdline())[:100]})"
        return "another process"
