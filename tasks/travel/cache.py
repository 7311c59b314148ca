"""Code, environments and data cached by hash.

Unpacked code is checked each time. A container behind SSH has a volume here; an image can bring a second
cache.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workloads.harness.records.places import home

IMAGE_CACHE = Path(os.environ.get("GRIDBENCH_BAKED") or "/opt/gridbench-kept")  # from the image
DAY_S = 24 * 3600.0
CODE, ENVIRONMENTS, DATA, INSTALLERS = "code", "environments", "data", "installers"
MOST = {CODE: 10, ENVIRONMENTS: 10, DATA: 3}  # newest entries that stay
IN_USE_S = {CODE: 0.0, ENVIRONMENTS: 2 * DAY_S, DATA: 2 * DAY_S}  # time for which others can run in an entry


def cache_folder(kind: str) -> Path:
    """Return the folder below `GRIDBENCH_KEPT`."""
    named = os.environ.get("GRIDBENCH_KEPT")
    return (Path(named) if named else home() / ".gridbench" / "kept") / kind


def cache_folders(kind: str) -> tuple[Path, Path]:
    """Return this machine's and its image's."""
    return cache_folder(kind), IMAGE_CACHE / kind


def mark_used(path: Path) -> None:
    with suppress(OSError):  # an image's entries can't be changed
        os.utime(path)


def prune(kind: str) -> None:
    """Remove the oldest beyond `MOST`, except any in use."""
    with suppress(OSError):
        dated = sorted(((path.stat().st_mtime, path) for path in _all(kind)), reverse=True)
        for used_at, path in dated[MOST[kind] :]:
            if time.time() - used_at >= IN_USE_S[kind]:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _all(kind: str) -> list[Path]:
    return [path for path in cache_folder(kind).iterdir() if not path.name.startswith(".")]


@contextmanager
def locked_entry(kind: str, name: str) -> Iterator[Path]:
    """Yield an entry, locked against other processes of this machine.

    Raises:
        OSError: the cache can't be written.
    """
    folder = cache_folder(kind)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / name
