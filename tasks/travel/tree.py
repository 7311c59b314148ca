"""A tree of code: files, id, and why it must not travel."""

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import GridbenchError, one_line
from tasks.travel.git import has_changes, names_in
from tasks.travel.secrets import looks_secret

MIB = 1024 * 1024
MOST_FILE_BYTES = 25 * MIB
MOST_BYTES = 1024 * MIB
MOST_FILES = 20_000
POINTER = b"version https://git-lfs.github.com/spec/"  # begins a file that Git LFS has not fetched
MOST_WORDS = 9000  # two paths of the longest kind, in characters


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree.

    Attributes:
        name: path from the tree's folder, with slashes.
        bytes: 0 for a link.
        digest: SHA-256, hexadecimal; empty for a link.
        link: target; None for a regular file.
    """

    name: str
    executable: bool
    bytes: int
    digest: str
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """A snapshot of code.

    Attributes:
        folder: absolute.
        id: `sha256:` and hexadecimal digits, over names, modes and contents.
        dirty: something is not committed; True without git.
        hindrance: why it must not leave; else empty.
    """

    folder: Path
    id: str
    dirty: bool
    files: tuple[TreeFile, ...]
    total_bytes: int
    hindrance: str = ""


def take(folder: Path) -> Tree:
    """Return tracked files, and new ones that are not ignored.

    Without git, all but usual caches, environments and what `.gitignore` excludes.

    Raises:
        GridbenchError: missing, empty, unreadable, or too many or too large files.
    """
    folder = Path(os.path.abspath(folder))
    if not folder.is_dir():
        raise GridbenchError(
            f"the code folder {folder} does not exist; name the folder that the script runs in"
        )
    names = names_in(folder)
    if not names:
        raise GridbenchError(f"the code folder {folder} has no file that git does not ignore")
    if len(names) > MOST_FILES:
        raise GridbenchError(
            f"the code folder {folder} has {len(names)} files, more than {MOST_FILES}; "
            "list files that are not code in .gitignore, and put data into --data"
        )
    hindrance, files = "", []
    for name in names:
        file, reason = _look_at(folder, name)
        files.append(file)
        hindrance = hindrance or one_line(reason, MOST_WORDS)  # a name can have line breaks
    total_bytes = sum(file.bytes for file in files)
    if total_bytes > MOST_BYTES:
        raise GridbenchError(
            f"the code folder {folder} has {total_bytes / MIB:.0f} MiB, more than {MOST_BYTES // MIB} MiB; "
            "list files that are not code in .gitignore, and put data into --data"
        )
    return Tree(folder, id_of(files), has_changes(folder), tuple(files), total_bytes, hindrance)


def id_of(files: list[TreeFile]) -> str:
    rows = sorted([file.name, file.executable, file.digest, file.link] for file in files)
    return f"sha256:{hashlib.sha256(json.dumps(rows).encode()).hexdigest()}"


def hex_of(tree_id: str) -> str:
    """Return the digits, which name files.

    Raises:
        GridbenchError: not such an id.
    """
    kind, _, digits = tree_id.partition(":")
    if kind != "sha256" or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise GridbenchError(f"{tree_id[:80]!r} is not a code id, which is sha256: and 64 hexadecimal digits")
    return digits


def _look_at(folder: Path, name: str) -> tuple[TreeFile, str]:
    path = folder / name
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return _link(folder, name)
        if not stat.S_ISREG(mode):
            raise GridbenchError(
                f"the code folder {folder} holds {name}, which is neither file nor link; remove it"
            )
        size = path.stat().st_size
        if size > MOST_FILE_BYTES:
            raise GridbenchError(
                f"the code folder {folder} holds {name} of {size / MIB:.0f} MiB, above the "
                f"{MOST_FILE_BYTES // MIB} MiB of a file; put it into --data, or name it in .gitignore"
            )
        content = path.read_bytes()
    except OSError as error:
        raise GridbenchError(
            f"{name} in the code folder {folder} can't be read ({error.strerror}); "
            "make it readable, or name it in .gitignore"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    reason = ""
    if looks_secret(name, content):
        reason = (
            f"the code folder {folder} holds {name}, which looks like a secret, and secrets do not travel; "
            "move it out of the folder, or have git ignore it"
        )
    elif content.startswith(POINTER):
        reason = (
            f"the code folder {folder} holds {name} only as a pointer of Git LFS, and the file itself would "
            "not travel; fetch it with `git lfs pull`, or remove it and put data into --data"
        )
    return TreeFile(name, bool(mode & stat.S_IXUSR), len(content), digest), reason


def _link(folder: Path, name: str) -> tuple[TreeFile, str]:
    target = os.readlink(folder / name)
    reason = ""
    if leads_out(name, target):
        reason = (
            f"the code folder {folder} holds the link {name}, which leads out of it to {target}; "
            "put a copy in its place, or have git ignore it"
        )
    return TreeFile(name, False, 0, "", target), reason


def leads_out(name: str, target: str) -> bool:
    """Return True also for too winding links."""
    parts = target.split("/")
    ups = sum(part == ".." for part in parts)
    starts_with_them = all(part == ".." for part in parts[:ups])  # behind another link, `..` is elsewhere
    return os.path.isabs(target) or not starts_with_them or ups > name.count("/")
