"""A script's processes: those that outlive it, or wait to open a guarded file."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workloads.harness.probes.orphans import adopting

LAST_S = 5.0  # in which a killed process is gone
# Calls that open a file or change its size, by their numbers (syscalls(2)): creat, open, openat, openat2, truncate.
OPENING = {"x86_64": {85, 2, 257, 437, 76}, "aarch64": {56, 437, 45}}


@contextmanager
def no_orphans() -> Iterator[None]:
    """End the processes started within that are left in another session."""
    with adopting(True):
        before = {child.pid for child in _children()}
        try:
            yield
        finally:
            left = [child for child in _children() if child.pid not in before and _is_apart(child.pid)]
            for child in left:
                with suppress(Exception):  # it is gone already
                    child.kill()
            for child in left:
                with suppress(Exception):
                    child.wait(LAST_S)


def is_opening_a_leased_file() -> bool:
    """Return whether a descendant waits for a lease to end; True if unknown."""
    try:
        return any(_waits_for_lease(task) for child in _children() for task in _tasks(child.pid))
    except PermissionError:
        return True


def _waits_for_lease(task: Path) -> bool:
    try:
        place, call = (task / "wchan").read_text(), (task / "syscall").read_text().split()
    except PermissionError:
        raise
    except OSError:  # it has ended
        return False
    if place.strip("0\n"):
        return "break_lease" in place
    opening = OPENING.get(platform.machine())  # the kernel does not report the place
    return bool(call) and call[0].isdigit() and (opening is None or int(call[0]) in opening)


def _tasks(pid: int) -> list[Path]:
    try:
        return [*Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # it has ended
        return []


def _children() -> list[Any]:
    import psutil  # the process of a repeat has to be small

    with suppress(psutil.Error):
        return list(psutil.Process().children(recursive=True))
    return []


def _is_apart(pid: int) -> bool:
    try:
        return os.getsid(pid) != os.getsid(0)
    except OSError:
        return False
