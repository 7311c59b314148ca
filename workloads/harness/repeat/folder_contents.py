"""The entries of a script's folder: which of them a copy gets as files, and which as links."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.text import gigabytes

MOST_BYTES = 512 * 2**20  # of a copy
MOST_FILES = 20_000
MOST_LOOKED_AT = 200_000  # entries, because a home folder can have millions
LARGE_BYTES = 25 * 2**20  # of a file, which is copied only if the smaller ones leave room
LEFT_OUT = frozenset({".gridbench", ".mypy_cache", ".pytest_cache", ".ruff_cache"})  # no script reads them
TOOLS = frozenset({".git", ".hg", ".svn", "node_modules"})  # links in a copy, as environments are
ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and time of a file: a change shows in them."""

    size_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, path: str | Path) -> FileState:
        """Return the state of a file.

        Raises:
            OSError: there is no such file.
        """
        return cls.from_stat(os.lstat(path))

    @classmethod
    def from_stat(cls, stat: os.stat_result) -> FileState:
        """Return the state in a stat result."""
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclass(slots=True)
class FolderContents:
    """The entries of a folder by their paths from the script's folder on.

    Attributes:
        folders: to be made, each after the one that it is in.
        files, large: regular files; the large ones have more than `LARGE_BYTES`.
        links: symbolic links, with their targets.
        whole: folders that a copy has as links, because they are too much to copy.
        tools: folders of tools, such as `.git` and environments, that a copy has as links.
        count, size_bytes: number of files and links, and bytes of `files`.
    """

    folders: list[str] = field(default_factory=list)
    files: dict[str, FileState] = field(default_factory=dict)
    large: dict[str, FileState] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0

    @property
    def is_too_much(self) -> bool:
        """Return whether it is too much to copy."""
        return self.count > MOST_FILES or self.size_bytes > MOST_BYTES

    def has_room_for(self, other: FolderContents) -> bool:
        """Return whether the entries of another folder can be copied, too."""
        return self.count + other.count <= MOST_FILES and self.size_bytes + other.size_bytes <= MOST_BYTES

    def add_file(self, name: str, state: FileState) -> None:
        """Add a regular file."""
        if state.size_bytes > LARGE_BYTES:
            self.large[name] = state
        else:
            self.files[name] = state
            self.size_bytes += state.size_bytes
        self.count += 1

    def add(self, other: FolderContents) -> None:
        """Add the entries of a folder in this one."""
        self.folders += other.folders
        self.whole += other.whole
        self.tools += other.tools
        self.files |= other.files
        self.large |= other.large
        self.links |= other.links
        self.count += other.count
        self.size_bytes += other.size_bytes


def contents_of(root: Path) -> FolderContents:
    """Return the entries of a script's folder.

    A folder in it that is too much to copy is one link; the smallest folders are copied first.

    Raises:
        WorkloadsError: the folder can't be listed, or the files in it that are in no folder are too much to copy.
    """
    try:
        contents, folders = _Look(root).entries("")
    except OSError as error:
        raise WorkloadsError(f"folder {root} can't be read ({error.strerror})") from None
    if contents.is_too_much:
        raise WorkloadsError(
            f"folder {root} holds {contents.count} files of {gigabytes(contents.size_bytes)} outside of its folders; "
            f"a copy for each repeat has {MOST_FILES} files of {gigabytes(MOST_BYTES)} at most: move data into a folder"
        )
    for name, within in sorted(folders.items(), key=lambda item: (item[1].size_bytes, item[1].count)):
        if contents.has_room_for(within):
            contents.folders.append(name)
            contents.add(within)
        else:
            contents.whole.append(name)
    return contents


class _Look:
    """A look into a folder: after `MOST_LOOKED_AT` entries the folders in it that are left are one link each."""

    def __init__(self, root: Path) -> None:
        self._root, self._left = root, MOST_LOOKED_AT

    def entries(self, name: str) -> tuple[FolderContents, dict[str, FolderContents]]:
        """Return the entries of a folder, and apart from them those of the folders in it.

        Raises:
            OSError: the folder can't be listed.
        """
        contents, folders = FolderContents(), dict[str, FolderContents]()
        with os.scandir(self._root / name) as found:
            # files first, so that a large folder never hides the script next to it
            entries = sorted(
                islice(found, MOST_LOOKED_AT), key=lambda entry: entry.is_dir(follow_symlinks=False)
            )
            for entry in entries:
                self._left -= 1
                if contents.is_too_much or (name and self._left < 0):
                    break
                self._take(f"{name}/{entry.name}" if name else entry.name, entry, contents, folders)
        return contents, folders

    def _take(
        self, name: str, entry: os.DirEntry[str], contents: FolderContents, folders: dict[str, FolderContents]
    ) -> None:
        """Note one entry; sockets and other special files are left out."""
        if entry.is_symlink():
            contents.links[name] = os.readlink(entry.path)
            contents.count += 1
        elif entry.is_file(follow_symlinks=False):
            contents.add_file(name, FileState.from_stat(entry.stat(follow_symlinks=False)))
        elif entry.is_dir(follow_symlinks=False) and entry.name not in LEFT_OUT:
            if entry.name in TOOLS or os.path.lexists(f"{entry.path}/{ENVIRONMENT}"):
                contents.tools.append(name)
            elif self._left < 0 or (within := self._within(name)) is None:
                contents.whole.append(name)
            else:
                folders[name] = within

    def _within(self, name: str) -> FolderContents | None:
        """Return all that is in a folder; None if it is too much to copy, or can't be listed."""
        try:
            contents, folders = self.entries(name)
        except OSError:
            return None
        for inner, within in folders.items():
            contents.folders.append(inner)
            contents.add(within)
        return None if contents.is_too_much or self._left < 0 else contents
