"""A fresh copy of a script's folder for each repeat: no repeat finds the files of an earlier one, and the user's stay.

The copy has all that the folder has. Files that are too large
to copy are cloned if the file system can do so. Otherwise they are links to the user's files, which are guarded.
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
from workloads.harness.repeat.folder_contents import MOST_BYTES, FileState, FolderContents, contents_of

PREFIX = "gridbench-copy-"
ABOVE, MOST_ABOVE = (
    3,
    1000,
)  # folders above whose entries are links in the copy, for `../data`, and entries of each
UNLOCKED_S = 60.0  # a copy that has just been begun is not locked yet
FICLONE = 0x40049409  # ioctl_ficlone(2): share the blocks of another file
CACHE = "__pycache__"


@dataclass(slots=True)
class FolderCopy:
    """A copy of a script's folder.

    Attributes:
        original, folder: the user's folder, and its copy.
        contents: of the original when it was copied.
        linked: files and folders that are links to the user's, from the folder on.
        outward: the folder's own links that lead out of it.
        states: of the files in the copy, before the script runs.
    """

    original: Path
    folder: Path
    contents: FolderContents
    linked: list[str] = field(default_factory=list)
    outward: list[str] = field(default_factory=list)
    states: dict[str, FileState] = field(default_factory=dict)

    @property
    def linked_files(self) -> list[Path]:
        """The user's files that the copy has as links."""
        return [self.original / name for name in self.linked if name not in self.contents.whole]

    def here(self, text: str) -> str:
        """Return a text with paths of the copy for those of the original."""
        return text.replace(str(self.original), str(self.folder))

    def there(self, text: str) -> str:
        """Return a text with paths of the original for those of the copy."""
        return text.replace(str(self.folder), str(self.original))

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return variables whose working directory and paths of Python modules are those of the copy."""
        environ = {**environ, "PWD": str(self.folder)} if "PWD" in environ else environ
        paths = environ.get("PYTHONPATH", "").split(os.pathsep)
        inside = [self._moved(path) for path in paths]
        return {**environ, "PYTHONPATH": os.pathsep.join(inside)} if inside != paths else dict(environ)

    def _moved(self, path: str) -> str:
        if path and Path(path).is_absolute() and Path(path).is_relative_to(self.original):
            return str(self.folder / Path(path).relative_to(self.original))
        return path

    def written(self) -> list[str]:
        """Return the files that the script has made or changed in the copy; caches of Python are left out."""
        now = contents_now(self.folder)
        return sorted(name for name, state in now.items() if self.states.get(name) != state)

    def changed_originals(self) -> list[str]:
        """Return the user's own files that have changed, appeared or gone since they were copied."""
        contents = self.contents
        before, now = contents.files | contents.large, contents_now(self.original, contents.folders)
        names = before.keys() | now.keys()
        return sorted(name for name in names if CACHE not in name and before.get(name) != now.get(name))

    def keep(self, names: Iterable[str], folder: Path) -> None:
        """Copy files of the copy into a folder, which is made.

        Raises:
            WorkloadsError: it can't be written.
        """
        try:
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # removed since, by a process that the script left
                    shutil.copy2(self.folder / name, folder / name)
        except OSError as error:
            raise WorkloadsError(f"files can't be kept in {folder} ({error.strerror})") from None


@contextmanager
def fresh_copy(original: Path) -> Iterator[FolderCopy]:
    """Copy a folder, and remove the copy afterwards.

    Raises:
        WorkloadsError: the folder is too much to copy, or the copy can't be written.
    """
    contents = contents_of(original)
    _remove_old_copies()
    try:
        room = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        lock = os.open(room, os.O_RDONLY)
    except OSError as error:
        raise WorkloadsError(
            f"nothing can be written to {tempfile.gettempdir()} ({error.strerror}); free some space, or set TMPDIR"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            copy = FolderCopy(original, _place(original, room), contents)
            _fill(copy)
        except OSError as error:
            raise WorkloadsError(
                f"folder {original} can't be copied to {room} ({error.strerror}); free some space, or set TMPDIR"
            ) from None
        yield copy
    finally:
        shutil.rmtree(room, ignore_errors=True)
        os.close(lock)


def _remove_old_copies() -> None:
    """Remove copies of processes that were killed: those that no living process has locked."""
    for room in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(room, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - room.stat().st_mtime > UNLOCKED_S:
                    shutil.rmtree(room, ignore_errors=True)
            finally:
                os.close(lock)


def contents_now(folder: Path, folders: Iterable[str] | None = None) -> dict[str, FileState]:
    """Return the state of each file in a folder, without caches of Python; links are not followed.

    With `folders`, only files in the folder itself and in those of its folders are looked at.
    """
    states = dict[str, FileState]()
    left = [""] if folders is None else ["", *folders]
    while left:
        within = left.pop()
        with suppress(OSError), os.scandir(folder / within) as entries:
            for entry in entries:
                name = f"{within}/{entry.name}" if within else entry.name
                if entry.is_dir(follow_symlinks=False):
                    left += [name] if folders is None and entry.name != CACHE else []
                elif entry.is_file(follow_symlinks=False):
                    with suppress(OSError):
                        states[name] = FileState.of(entry.path)
    return states


def _place(original: Path, room: Path) -> Path:
    """Return the place of a copy, below folders with the names of those above the original, and their entries."""
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
    """Copy all entries of the original, or set links to them."""
    for name in copy.contents.folders:
        (copy.folder / name).mkdir()
    for name in copy.contents.files:
        _copy(copy, name)
    left_bytes = MOST_BYTES - copy.contents.size_bytes
    for name, state in sorted(copy.contents.large.items(), key=lambda item: item[1].size_bytes):
        if state.size_bytes <= left_bytes:
            _copy(copy, name)
            left_bytes -= state.size_bytes
        elif not _clone(copy.original / name, copy.folder / name):
            _link(copy, name)
    for name in copy.contents.whole:
        _link(copy, name)
    for name in copy.contents.tools:
        (copy.folder / name).symlink_to(copy.original / name)
    for name, target in copy.contents.links.items():
        there = _target(copy, name, target)
        (copy.folder / name).symlink_to(there)
        if os.path.isabs(there) and not Path(there).is_relative_to(copy.folder):
            copy.outward.append(name)
    copy.states = contents_now(copy.folder)


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
    """Make a file that shares the blocks of another until one is written; False if the file system can't."""
    try:
        with source.open("rb") as reading, target.open("wb") as writing:
            fcntl.ioctl(writing.fileno(), FICLONE, reading.fileno())
        shutil.copystat(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True


def _target(copy: FolderCopy, name: str, target: str) -> str:
    """Return the target of a link in the copy: within the copy if it was within the original, or else the same."""
    absolute = os.path.normpath(os.path.join(copy.original, os.path.dirname(name), target))
    if Path(absolute).is_relative_to(copy.original):
        return target if not os.path.isabs(target) else copy.here(absolute)
    return absolute
