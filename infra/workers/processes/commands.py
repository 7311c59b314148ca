"""Process trees with the commands of a container runtime, as `box.sh` calls them, and `hold`, the root.

    hold OPTIONS FOLDER COMMAND…         the root of a tree, in the foreground: see `tree`
    run OPTIONS FOLDER COMMAND…          the same in its own session; returns once it has begun
    ps -q [--filter name=^NAME$]         the names of all trees with a running process, or only NAME
    logs [-f] NAME                       nothing, since the log is in FOLDER; -f waits for the end
    inspect -f FORMAT NAME               `CODE OOM`
    stop -t S NAME                       end a tree within S seconds
    rm -f -v NAME                        kill the rest of the tree
    pull NAME WORD…                      run this Python with these arguments as part of the tree
    info …                               this Python's path, version and modules, as JSON

FOLDER is next to this file, so a name is enough to find it.
"""

import argparse
import fcntl
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ..brand import BRAND
from .processes import KILL_S, MARK, running, sweep
from .tree import KILLED, forget_scratch, hold

HERE = Path(sys.argv[0]).absolute().parent
POLL_S = 0.05
UNKNOWN = 64


def run(asked: argparse.Namespace) -> int:
    """Start a tree that outlives this session; return 0 once it has begun."""
    with (asked.folder / "log").open("ab") as log:
        words = [sys.executable, sys.argv[0], "hold", *sys.argv[2:]]
        environ = os.environ | {MARK: asked.folder.name}
        root = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
        )
    while not root_of(asked.folder):
        if root.poll() is not None:
            return 0 if (asked.folder / "exit").exists() else 1
        time.sleep(POLL_S)
    return 0


def root_of(folder: Path, within_s: float = 0.0) -> int | None:
    """Return the process id of a tree's root after `within_s`; None as soon as it is gone."""
    until = time.monotonic() + within_s
    while True:
        try:
            with (folder / "root").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
        except FileNotFoundError:
            return None
        except BlockingIOError:
            pid = int((folder / "root").read_text() or 0)
        if time.monotonic() >= until:
            return pid or None
        time.sleep(POLL_S)


def follow(folder: Path) -> int:
    with suppress(FileNotFoundError), (folder / "root").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits without using CPU
    return remove(folder)


def stop(folder: Path, grace_s: float) -> int:
    """End a tree: by itself within `grace_s`, then at once; return 0 once it is gone."""
    for wait_s in (grace_s, KILL_S):
        if pid := root_of(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        root_of(folder, within_s=wait_s)
    return remove(folder)


def remove(folder: Path) -> int:
    gone = sweep(folder.name)
    forget_scratch(folder)
    return 0 if gone else 1


def end_of(folder: Path) -> str:
    """Return `CODE OOM`; a root that could not write it was killed."""
    text = (folder / "exit").read_text().strip()
    return f"{KILLED} false" if text.startswith("none") else text


def facts() -> dict[str, object]:
    has = [name for name in (BRAND.module, "pip", "uv") if importlib.util.find_spec(name)]
    return {"python": sys.executable, "version": sys.version.split()[0], "has": has}


def asked_for(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("tree.pyz", allow_abbrev=False)
    parser.add_argument("--limit-s", type=float)
    parser.add_argument("--env-file", type=Path)
    parser.add_argument("--code")
    parser.add_argument("--bin")
    parser.add_argument("folder", type=lambda path: Path(path).absolute())
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def main(verb: str, *words: str) -> int:
    os.umask(0o077)
    if verb in ("hold", "run"):
        return {"hold": hold, "run": run}[verb](asked_for([*words]))
    last = words[-1] if words else ""
    folder = HERE / last
    if verb == "ps":
        name = re.fullmatch(r"name=\^(.*)\$", last)
        print("\n".join(sorted(running() & {name[1]} if name else running())))
    elif verb == "logs" and "-f" in words:
        return follow(folder)
    elif verb == "inspect":
        print(end_of(folder))
    elif verb == "stop":
        return stop(folder, float(words[1]))
    elif verb == "rm":
        return remove(folder)
    elif verb == "pull":
        os.execve(sys.executable, [sys.executable, *words[1:]], os.environ | {MARK: words[0]})
    elif verb == "info":
        print(json.dumps(facts()))
    return 0 if verb in ("ps", "logs", "inspect", "info") else UNKNOWN
