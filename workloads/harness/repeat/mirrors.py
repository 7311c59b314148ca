"""Folders too large to copy: real folders with links to the user's entries."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from workloads.harness.records.secret_names import is_secret_name
from workloads.harness.repeat.folder_contents import (
    MOST_FILES,
    MOST_LOOKED_AT,
    is_tool,
    is_within,
    link_within,
)

FEW = 100  # entries of a folder whose small files are copied: logs and settings are, pictures are not
SMALL_BYTES = 2**20


@dataclass(slots=True)
class LinkedFolder:
    """A copy's files that link to the user's, and the user's folders whose files are watched."""

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def mirror(original: Path, copy: Path, names: Iterable[str], left_bytes: int) -> LinkedFolder:
    """Make folders in a copy with links to the user's entries, for new files, or raise OSError.

    Upper folders come first; one with too many entries is itself a link. In folders with few entries, small
    files are copied, `left_bytes` in all.
    """
    made, links, root = LinkedFolder(), MOST_FILES, os.path.realpath(original)
    left = deque((name, _base(original / name, root)) for name in names)
    outside, whole = {root}, list[str]()
    while left:
        name, base = left.popleft()
        entries = _entries(original / name, links)
        if entries is None:
            (copy / name).symlink_to(original / name)
            whole.append(name)
            continue
        links -= len(entries)
        (copy / name).mkdir()
        made.folders.append(name)
        for entry in entries:
            inner, there = f"{name}/{entry.name}", copy / name / entry.name
            size_bytes = _small_bytes(entry) if len(entries) <= FEW else None
            target = link_within(inner, entry.path, base, root) if entry.is_symlink() else None
            if target is not None:
                there.symlink_to(target)
            elif _is_to_enter(entry, outside):
                left.append((inner, _base(entry.path, base)))
            elif size_bytes is not None and size_bytes <= left_bytes:
                shutil.copy2(entry.path, there)
                left_bytes -= size_bytes
            elif os.path.exists(entry.path):
                # A link to nothing is left out: the script would make the file there.
                there.symlink_to(entry.path)
                if os.path.isfile(entry.path):
                    made.files.append(inner)
    made.folders += _folders_in(original, whole)
    return made


def _base(folder: str | Path, base: str) -> str:
    real = os.path.realpath(folder)
    return base if is_within(real, base) else real


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]] | None:
    try:
        with os.scandir(folder) as found:
            entries = list(islice(found, most + 1))
    except OSError:
        return None
    return entries if len(entries) <= most else None


def _is_to_enter(entry: os.DirEntry[str], outside: set[str]) -> bool:
    if not os.path.isdir(entry.path) or is_tool(entry):
        return False
    if not entry.is_symlink():
        return True
    real = os.path.realpath(entry.path)
    if any(is_within(other, real) for other in outside):
        return False
    outside.add(real)
    return True


def _small_bytes(entry: os.DirEntry[str]) -> int | None:
    is_file = entry.is_file(follow_symlinks=False) and not is_secret_name(entry.name)
    if not is_file or not os.access(entry.path, os.R_OK):
        return None
    size_bytes = entry.stat().st_size
    return size_bytes if size_bytes <= SMALL_BYTES else None


def _folders_in(original: Path, names: Iterable[str]) -> list[str]:
    found, left, looked_at = list[str](), deque(names), 0
    while left and looked_at < MOST_LOOKED_AT:
        name = left.popleft()
        entries = _entries(original / name, MOST_LOOKED_AT)
        if entries is None:
            continue
        looked_at += len(entries)
        found.append(name)
        left += [f"{name}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
    return found
