"""The entries of a script's folder, and which a copy links."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISLNK, S_ISREG

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.secret_names import is_secret_folder, is_secret_name
from workloads.harness.records.text import gigabytes

MOST_BYTES = 512 * 2**20  # of a copy
MOST_FILES = 20_000
MOST_LOOKED_AT = 200_000  # entries, because a home folder can have millions
LARGE_BYTES = 25 * 2**20  # of a file, which is copied only if the smaller ones leave room
LEFT_OUT = frozenset({".gridbench", ".mypy_cache", ".pytest_cache", ".ruff_cache"})  # no script reads them
TOOLS = frozenset({".git", ".hg", ".svn", "node_modules"})  # links in a copy, as environments are
ENVIRONMENT = "pyvenv.cfg"
CACHE = "__pycache__"
ABOVE = 3  # folders above whose entries are links in a copy, for `../data`
PREFIX = "gridbench-copy-"  # of copies, which are in no other copy


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and time of a file, which show a change."""

    size_bytes: int
    changed_ns: int

    @classmethod
    def from_stat(cls, stat: os.stat_result) -> FileState:
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclass(slots=True)
class FolderContents:
    """The entries of a folder by their paths relative to the script's folder.

    Attributes:
        folders: to make, parents first.
        files, large: regular files, and outside targets of links; the large ones have more than
            `LARGE_BYTES`.
        links: symbolic links and their targets in the copy: relative within it, else absolute.
        outward: those of `links` that lead out of the folder.
        secrets: those of `files` that are not copied, by their names.
        whole: folders too large to copy.
        tools: folders of tools and keys, such as `.git` and environments, which a copy links.
        count, size_bytes: number of files and links, and bytes of `files`.
    """

    folders: list[str] = field(default_factory=list)
    files: dict[str, FileState] = field(default_factory=dict)
    large: dict[str, FileState] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    outward: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0

    @property
    def is_too_much(self) -> bool:
        return self.count > MOST_FILES or self.size_bytes > MOST_BYTES

    def has_room_for(self, other: FolderContents) -> bool:
        return self.count + other.count <= MOST_FILES and self.size_bytes + other.size_bytes <= MOST_BYTES

    def add_file(self, name: str, state: FileState) -> None:
        if state.size_bytes > LARGE_BYTES:
            self.large[name] = state
        else:
            self.files[name] = state
            self.size_bytes += state.size_bytes
        self.count += 1

    def add(self, other: FolderContents) -> None:
        self.folders += other.folders
        self.outward += other.outward
        self.secrets += other.secrets
        self.whole += other.whole
        self.tools += other.tools
        self.files |= other.files
        self.large |= other.large
        self.links |= other.links
        self.count += other.count
        self.size_bytes += other.size_bytes


def contents_of(root: Path, without: Path | None = None) -> FolderContents:
    """Return the entries of a script's folder and of linked outside folders, the smallest first."""
    try:
        contents, folders = _Look(root, without).entries("")
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


def is_tool(entry: os.DirEntry[str]) -> bool:
    is_named = entry.name in TOOLS or is_secret_folder(entry.name)
    return is_named or os.path.lexists(f"{entry.path}/{ENVIRONMENT}")


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it, by its text."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def contents_now(folder: Path, folders: Iterable[str] | None = None) -> dict[str, FileState]:
    """Return the state of a folder's files and links, without caches of Python.

    With `folders`, only files directly in those are read, and links to files count as files.
    """
    states = dict[str, FileState]()
    left = [""] if folders is None else [*folders]
    while left:
        within = left.pop()
        with suppress(OSError), os.scandir(folder / within) as entries:
            for entry in entries:
                name = f"{within}/{entry.name}" if within else entry.name
                if folders is None and entry.is_dir(follow_symlinks=False):
                    left += [name] if entry.name != CACHE else []
                    continue
                with suppress(OSError):
                    stat = entry.stat(follow_symlinks=folders is not None)
                    if S_ISREG(stat.st_mode) or S_ISLNK(stat.st_mode):
                        states[name] = FileState.from_stat(stat)
    return states


class _Look:
    """A look into a folder; after `MOST_LOOKED_AT` entries, further folders are too large."""

    def __init__(self, root: Path, without: Path | None) -> None:
        self._root, self._left = root, MOST_LOOKED_AT
        self._real = os.path.realpath(root)
        self._without = os.path.realpath(without) if without else ""
        self._outside = dict[str, str]()  # real paths of folders that links lead to, by the links

    def entries(self, name: str) -> tuple[FolderContents, dict[str, FolderContents]]:
        contents, folders = FolderContents(), dict[str, FolderContents]()
        with os.scandir(self._root / name) as found:
            # files first, so that a large folder never hides the script next to it
            entries = sorted(islice(found, MOST_LOOKED_AT), key=lambda entry: os.path.isdir(entry.path))
            for entry in entries:
                self._left -= 1
                if contents.is_too_much or (name and self._left < 0):
                    break
                self._take(f"{name}/{entry.name}" if name else entry.name, entry, contents, folders)
        return contents, folders

    def _take(
        self, name: str, entry: os.DirEntry[str], contents: FolderContents, folders: dict[str, FolderContents]
    ) -> None:
        if entry.is_symlink() and not self._is_content(name, entry.path, contents):
            return
        if entry.is_file():
            if is_secret_name(name):
                contents.secrets.append(name)
            contents.add_file(name, FileState.from_stat(entry.stat()))
        elif entry.is_dir() and not self._is_left_out(entry):
            if is_tool(entry):
                contents.tools.append(name)
            elif self._left < 0 or (within := self._within(name)) is None:
                contents.whole.append(name)
            else:
                folders[name] = within

    def _is_left_out(self, entry: os.DirEntry[str]) -> bool:
        is_kept = bool(self._without) and os.path.realpath(entry.path) == self._without
        return is_kept or entry.name in LEFT_OUT or entry.name.startswith(PREFIX)

    def _is_content(self, name: str, path: str, contents: FolderContents) -> bool:
        """Return whether the copy gets a link's outside target; else note the link.

        A dead link to the outside is left out: the script would make the file there. A link to a module stays
        one, because Python looks for a script's imports next to the real file.
        """
        top = next((top for top in self._outside if is_within(name, top)), "")
        base, real = self._outside.get(top, self._real), os.path.realpath(path)
        target = link_within(name, path, base, self._real)
        if target is not None:
            contents.links[name] = target
            contents.count += 1
            return False
        is_above = is_within(self._real, real) or real in self._outside.values()
        if os.path.isdir(real) and not is_above:
            self._outside[name] = real
            return True
        if os.path.isfile(real) and not real.endswith(".py"):
            return True
        if os.path.exists(real):
            contents.links[name] = real
            contents.outward.append(name)
            contents.count += 1
        return False

    def _within(self, name: str) -> FolderContents | None:
        try:
            contents, folders = self.entries(name)
        except OSError:
            return None
        for inner, within in folders.items():
            contents.folders.append(inner)
            contents.add(within)
        return None if contents.is_too_much or self._left < 0 else contents


def link_within(name: str, path: str, base: str, root: str) -> str | None:
    """Return a link's target in a copy, if it stays in or above it.

    Args:
        name: of the link, relative to the script's folder.
        path: of the user's link.
        base: the folder of the link's own neighbours: the script's, or one that a link leads to.
        root: the script's folder; both have no links in their paths.
    """
    target, parent = os.readlink(path), os.path.realpath(os.path.dirname(path))
    there = os.path.normpath(os.path.join(parent, target))
    if is_within(there, base):
        return os.path.relpath(there, parent) if os.path.isabs(target) else target
    real = os.path.realpath(path)
    if is_within(real, base):
        return os.path.relpath(real, parent)
    inner = os.path.relpath(real, root)
    is_above = is_within(root, real) and inner.count("..") <= ABOVE and real != "/"
    if is_above or is_within(real, root):
        return os.path.normpath(os.path.join(os.path.relpath(".", os.path.dirname(name) or "."), inner))
    return None
