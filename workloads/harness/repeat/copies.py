"""A fresh copy of a script's folder for each repeat.

Files too large to copy are cloned if the file system can; otherwise they are guarded links to the user's
files. A folder too large to copy is a real one with links.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat.folder_contents import (
    ABOVE,
    CACHE,
    MOST_BYTES,
    PREFIX,
    FileState,
    FolderContents,
    contents_now,
    contents_of,
)
from workloads.harness.repeat.mirrors import LinkedFolder, mirror
from workloads.harness.repeat.moved_paths import moved, moved_word

MOST_ABOVE = 1000  # entries of a folder above that are links in the copy
UNLOCKED_S = 60.0  # a copy that has just been begun is not locked yet
FICLONE = 0x40049409  # ioctl_ficlone(2): share the blocks of another file
UP, KEPT_UP = "../", "parent/"  # files above the copy, and their place among the kept ones


@dataclass(slots=True)
class FolderCopy:
    """A copy of a script's folder.

    Attributes:
        original, folder: the user's folder, and its copy.
        room: the folder that is removed with the copy.
        linked: linked files, too large or secret, relative to the folder.
        states, originals: of the files in the copy and of the watched user's files, before the script runs.
    """

    original: Path
    folder: Path
    room: Path
    contents: FolderContents
    linked: list[str] = field(default_factory=list)
    mirror: LinkedFolder = field(default_factory=LinkedFolder)
    states: dict[str, FileState] = field(default_factory=dict)
    originals: dict[str, FileState] = field(default_factory=dict)

    @property
    def links(self) -> list[str]:
        return [*self.linked, *self.contents.whole, *self.contents.outward]

    @property
    def linked_files(self) -> list[Path]:
        return [self.original / name for name in self.linked if name not in self.contents.secrets]

    @property
    def other_files(self) -> list[Path]:
        """The user's other linked files: in large folders, secrets, and modules outside."""
        names = [*self.contents.secrets, *self.contents.outward, *self.mirror.files]
        return [file for name in names if (file := self.original / name).is_file()]

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        tools = self.contents.tools
        return tuple(moved_word(word, str(self.original), str(self.folder), tools) for word in words)

    def there(self, text: str) -> str:
        return text.replace(str(self.folder), str(self.original))

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        names = str(self.original), str(self.folder), self.contents.tools
        inside = {name: moved(value, *names) for name, value in environ.items()}
        return {**inside, "PWD": str(self.folder)} if "PWD" in environ else inside

    def written(self) -> list[str]:
        now = _states(self.folder, self.room)
        return sorted(name for name, state in now.items() if self.states.get(name) != state)

    def changed_originals(self) -> list[str]:
        before, now = self.originals, self._originals_now()
        names = before.keys() | now.keys()
        return sorted(name for name in names if CACHE not in name and before.get(name) != now.get(name))

    def note_states(self) -> None:
        self.states, self.originals = _states(self.folder, self.room), self._originals_now()

    def _originals_now(self) -> dict[str, FileState]:
        states = contents_now(self.original, ["", *self.contents.folders, *self.mirror.folders])
        return {name: state for name, state in states.items() if name not in self.contents.links}

    def keep(self, names: Iterable[str], folder: Path) -> None:
        try:
            for name in names:
                source, kept = self.folder / name, folder / name.replace(UP, KEPT_UP)
                kept.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # removed since, by a process that the script left
                    if source.is_symlink() and source.readlink().is_relative_to(self.folder):
                        kept.symlink_to(os.path.relpath(source.readlink(), source.parent))
                    else:
                        shutil.copy2(source, kept, follow_symlinks=False)
        except OSError as error:
            raise WorkloadsError(f"files can't be kept in {folder} ({error.strerror})") from None


@contextmanager
def fresh_copy(original: Path, without: Path | None = None) -> Iterator[FolderCopy]:
    """Copy a folder privately, without one of its folders; remove the copy afterwards."""
    check_folder(original)
    contents = contents_of(original, without)
    _remove_old_copies()
    try:
        room = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        lock = os.open(room, os.O_RDONLY)
    except OSError as error:
        raise WorkloadsError(
            f"nothing can be written to {tempfile.gettempdir()} ({error.strerror}); free some space, or set TMPDIR"
        ) from None
    try:
        with suppress(OSError):  # a file system without locks, on which no process removes old copies
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            copy = FolderCopy(original, _place(original, room), room, contents)
            _fill(copy)
        except OSError as error:
            raise WorkloadsError(
                f"folder {original} can't be copied to {room} ({error.strerror}); free some space, or set TMPDIR"
            ) from None
        yield copy
    finally:
        _remove(room)
        os.close(lock)


def _remove_old_copies() -> None:
    for room in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            # A pipe or a link of this name is not opened.
            lock = os.open(room, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - room.stat().st_mtime > UNLOCKED_S:
                    _remove(room)
            finally:
                os.close(lock)


def _remove(room: Path) -> None:
    shutil.rmtree(room, ignore_errors=True)
    for folder, names, _ in os.walk(room):
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.islink(path):  # a link can lead to the user's folder
                os.chmod(path, 0o700)
    shutil.rmtree(room, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Refuse to copy a home, which has keys, or a folder around it."""
    with suppress(RuntimeError):  # this user has no home
        if Path.home().resolve().is_relative_to(folder.resolve()):
            raise WorkloadsError(
                f"folder {folder} holds your home folder, and a repeat runs in a copy of its folder; "
                "put the script into a folder with its files alone and name that by --folder"
            )


def _states(folder: Path, room: Path) -> dict[str, FileState]:
    states, below, up = contents_now(folder), folder, UP
    while below != room:
        with os.scandir(below.parent) as entries:
            others = [entry for entry in entries if entry.name != below.name]
        for entry in others:
            if entry.is_dir(follow_symlinks=False):
                inner = contents_now(Path(entry.path))
                states |= {f"{up}{entry.name}/{name}": state for name, state in inner.items()}
                continue
            with suppress(FileNotFoundError):  # removed since, by a process that the script left
                states[f"{up}{entry.name}"] = FileState.from_stat(entry.stat(follow_symlinks=False))
        below, up = below.parent, up + UP
    return states


def _place(original: Path, room: Path) -> Path:
    here, path = room, [parent for parent in reversed([*original.parents][:ABOVE]) if parent.name]
    for above, below in pairwise([*path, original]):
        here = here / above.name
        here.mkdir()
        with suppress(OSError):
            names = os.listdir(above)
            for name in names if len(names) <= MOST_ABOVE else ():
                if name != below.name:
                    (here / name).symlink_to(above / name)
    copied = here / (original.name or "folder")
    copied.mkdir()
    return copied


def _fill(copy: FolderCopy) -> None:
    contents = copy.contents
    for name in contents.folders:
        (copy.folder / name).mkdir()
    for name in contents.files.keys() - contents.secrets:
        _copy(copy, name)
    left_bytes = MOST_BYTES - contents.size_bytes
    for name, state in sorted(contents.large.items(), key=lambda item: item[1].size_bytes):
        if name in contents.secrets:
            continue
        if state.size_bytes <= left_bytes:
            _copy(copy, name)
            left_bytes -= state.size_bytes
        elif not _clone(copy.original / name, copy.folder / name):
            _link(copy, name)
    for name in contents.secrets:
        _link(copy, name)
    for name in contents.tools:
        (copy.folder / name).symlink_to(copy.original / name)
    for name, target in contents.links.items():
        (copy.folder / name).symlink_to(target)
    copy.mirror = mirror(copy.original, copy.folder, contents.whole, left_bytes)
    copy.note_states()


def _copy(copy: FolderCopy, name: str) -> None:
    try:
        shutil.copy2(copy.original / name, copy.folder / name)
    except FileNotFoundError:  # removed since
        return
    except PermissionError:
        _link(copy, name)


def _link(copy: FolderCopy, name: str) -> None:
    (copy.folder / name).symlink_to(copy.original / name)
    copy.linked.append(name)


def _clone(source: Path, target: Path) -> bool:
    try:
        with source.open("rb") as reading, target.open("wb") as writing:
            fcntl.ioctl(writing.fileno(), FICLONE, reading.fileno())
        shutil.copystat(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
