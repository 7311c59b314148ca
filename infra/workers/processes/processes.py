"""The processes of a tree, found by their mark and parents."""

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..brand import BRAND

MARK = f"{BRAND.env_prefix}TREE"
HERE = ("127.0.0.1", "localhost")
KILL_S = 10.0  # for killed processes to be gone: a driver can hold one


def environ_of(pid: int) -> dict[str, str]:
    """Return a process's initial environment; empty for another user's, or an ended one."""
    with suppress(OSError):
        return variables(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return {}


def variables(lines: list[bytes]) -> dict[str, str]:
    pairs = (os.fsdecode(line).partition("=") for line in lines if line)
    return {name: value for name, _, value in pairs}


def without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, in both spellings, that exempt this machine from a proxy."""
    stated = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = dict.fromkeys([*filter(None, stated.split(",")), *HERE])
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(hosts))


def parents() -> dict[int, int]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError):
                state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    found[int(entry)] = int(parent)
    return found


def members(name: str, root: int = 0) -> set[int]:
    """Return a tree's processes without its root: those with its mark, and their descendants."""
    above = parents()
    found = {pid for pid in above if environ_of(pid).get(MARK) == name} | {root}
    while further := {pid for pid, parent in above.items() if parent and parent in found} - found:
        found |= further
    return found - {0, root, os.getpid()}


def running() -> set[str]:
    return {environ_of(pid).get(MARK, "") for pid in parents()} - {""}


def sweep(name: str, root: int = 0, bury: Callable[[], object] = lambda: None) -> bool:
    """Kill all of a tree except its root, also new forks; return True once it is gone."""
    until = time.monotonic() + KILL_S
    while (left := members(name, root)) and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        bury()
        time.sleep(0.02)
    return not left


def reap() -> dict[int, int]:
    """Reap the ended children; return their exit codes, 128 + N after signal N."""
    ended = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            code = os.waitstatus_to_exitcode(status)
            ended[pid] = code if code >= 0 else 128 - code
    return ended


def oom_kills(root: Path = Path("/")) -> tuple[int, int]:
    """Count processes killed for memory: in our cgroups, and on the machine."""
    own = 0
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            place = root / "sys/fs/cgroup" / kinds / path.lstrip("/")
            own += _count(place / "memory.events") + _count(place / "memory.oom_control")
    return own, _count(root / "proc/vmstat")


def _count(file: Path) -> int:
    with suppress(OSError):
        return sum(map(int, re.findall(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)))
    return 0
