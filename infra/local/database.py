"""Faults of a stack's database."""

import errno
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import quote

import psutil

PATIENCE_S = 30.0  # for a writer to end, or the user to free space
LOOK_S = 5.0  # between two checks: each takes the write lock for an instant
ECHO_S = 20.0  # for which an error in the server's log counts
ROOM_BYTES = 2**16  # a file system with less free space has no room for a page of the database's journal
DAMAGED = "is damaged: move it away, and a new one is made; the results store does not need it"
FULL = "can't grow: its disk is full, or its user has no space left. Make room"
REASONS = {  # by SQLite's message, sqlite.org/rescode.html
    "malformed": DAMAGED,
    "not a database": DAMAGED,
    "disk is full": FULL,
    "disk I/O error": FULL,
    "readonly": "can't be written: change its owner or its mode",
    "unable to open": "can't be opened: it was moved, or another user owns it",
}


def database_file(state: Path) -> Path:
    return state / "prefect.db"


class DatabaseWatch:
    """A check of a stack's database every few seconds, by its file and log."""

    def __init__(self, state: Path, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._log, self._clock = database_file(state), log, clock
        self._offset = log.stat().st_size if log.exists() else 0
        self._since: float | None = None
        self._looked = float("-inf")
        self._heard, self._heard_at = "", float("-inf")

    def fault(self) -> str:
        """Return a sentence about a fault that has lasted `PATIENCE_S`, or ""."""
        now = self._clock()
        if now - self._looked < LOOK_S:
            return ""
        self._looked = now
        if heard := reason_in(self._news()):
            self._heard, self._heard_at = heard, now
        reason = fault_of(self._file) or (self._heard if now - self._heard_at < ECHO_S else "")
        if not reason:
            self._since = None
            return ""
        self._since = now if self._since is None else self._since
        lasted_s = now - self._since
        return (
            f"The Prefect database {self._file} {reason} (seen for {lasted_s:.0f} s)."
            if lasted_s >= PATIENCE_S
            else ""
        )

    def _news(self) -> str:
        with suppress(OSError), self._log.open("rb") as log:
            start = self._offset if self._log.stat().st_size >= self._offset else 0
            log.seek(start)
            news = log.read()
            self._offset = start + len(news)
            return news.decode(errors="replace")
        return ""


def fault_of(file: Path) -> str:
    """Return the rest of a sentence, or ""."""
    if not file.exists():
        return "is gone"
    if not _has_room(file.parent):
        return FULL
    try:
        address = f"file:{quote(str(file))}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            database.execute("ROLLBACK")
    except sqlite3.Error as error:
        if "locked" in str(error):
            return f"is locked{_holder(file)}: end what writes to it"
        return reason_in(str(error)) or f"can't be written ({error})"
    return ""


def _has_room(folder: Path) -> bool:
    """Return True if a file can grow; free space does not include a user's quota."""
    try:
        with TemporaryFile(dir=folder, buffering=0) as probe:
            return probe.write(bytes(ROOM_BYTES)) == ROOM_BYTES
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)


def reason_in(text: str) -> str:
    """Return the rest of a sentence for SQLite's error in a text, or ""."""
    return next((reason for sign, reason in REASONS.items() if sign in text), "")


def _holder(file: Path) -> str:
    """Name the process with the database's write lock, if the kernel lists it."""
    for part in (file, file.with_name(f"{file.name}-shm")):
        with suppress(OSError, psutil.Error):
            inode = part.stat().st_ino
            for line in Path("/proc/locks").read_text().splitlines():
                if match := re.search(rf"\bWRITE (\d+) [0-9a-f:]+:{inode} ", line):
                    process = psutil.Process(int(match[1]))
                    return f" by process {process.pid} ({process.name()})"
    return ""
