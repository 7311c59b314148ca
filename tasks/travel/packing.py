"""Pack a source tree reproducibly, and unpack it: no path can escape the folder."""

import hashlib
import io
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from tasks.errors import GridbenchError
from tasks.travel.tree import MIB, MOST_BYTES, MOST_FILES, Tree, TreeFile, hex_of, id_of, leads_out

LEVEL = 6  # of zlib
SPARE_BYTES = 64 * MIB  # of the archive besides the files: names and padding
READABLE, RUNNABLE = 0o644, 0o755


def pack(tree: Tree) -> bytes:
    """Return an archive without owners and times.

    Raises:
        GridbenchError: must not leave this machine, or has changed.
    """
    if tree.hindrance:
        raise GridbenchError(tree.hindrance)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(tree.files, key=lambda file: file.name):
            entry = tarfile.TarInfo(file.name)
            entry.mode = RUNNABLE if file.executable else READABLE
            if file.link is not None:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
                archive.addfile(entry)
                continue
            content = _content(tree, file)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return zlib.compress(buffer.getvalue(), LEVEL)


def _content(tree: Tree, file: TreeFile) -> bytes:
    try:
        content = (tree.folder / file.name).read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != file.digest:
        raise GridbenchError(f"{file.name} in {tree.folder} has changed meanwhile; start the run again")
    return content


def unpack(packed: bytes, tree_id: str, folder: Path) -> None:
    """Write a packed tree into a new folder.

    Content and names are checked before the first file is written.

    Raises:
        GridbenchError: damaged, another tree, or leads out of the folder.
    """
    entries = _entries(_expanded(packed, tree_id), tree_id)
    if id_of([file for file, _ in entries]) != tree_id:
        raise GridbenchError(f"the code that came is not {tree_id}; start the run again")
    folder.mkdir(parents=True)
    for file, content in entries:  # files first: no link can lead a later one elsewhere
        if file.link is None:
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(RUNNABLE if file.executable else READABLE)
    for file, _ in entries:
        if file.link is not None:
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(file.link)


def _expanded(packed: bytes, tree_id: str) -> bytes:
    hex_of(tree_id)
    most_bytes = MOST_BYTES + SPARE_BYTES
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed, most_bytes)
    except zlib.error:
        raise GridbenchError(f"the code {tree_id} came damaged; start the run again") from None
    if not stream.eof or stream.unused_data:
        raise GridbenchError(f"the code {tree_id} came damaged or is above {most_bytes // MIB} MiB")
    return content


def _entries(archive_bytes: bytes, tree_id: str) -> list[tuple[TreeFile, bytes]]:
    entries: dict[str, tuple[TreeFile, bytes]] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive_bytes), mode="r:") as archive:
            for entry in archive:
                file, content = _entry(archive, entry)
                if file.name in entries or len(entries) >= MOST_FILES:
                    raise GridbenchError(f"the code {tree_id} holds {file.name[:200]!r} twice, or too much")
                entries[file.name] = file, content
    except (tarfile.TarError, OSError, ValueError, RecursionError):
        raise GridbenchError(f"the code {tree_id} is not an archive; start the run again") from None
    _check_parents(entries)
    return [*entries.values()]


def _entry(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> tuple[TreeFile, bytes]:
    name = entry.name
    parts = PurePosixPath(name).parts
    if not parts or name != "/".join(parts) or ".." in parts or parts[0] == "/" or "\0" in name:
        raise GridbenchError(f"the code that came holds {name[:200]!r}, which would leave its folder")
    if entry.issym():
        if leads_out(name, entry.linkname):
            raise GridbenchError(f"the code that came holds the link {name[:200]!r}, which leaves its folder")
        return TreeFile(name, False, 0, "", entry.linkname), b""
    is_plain = entry.type in tarfile.REGULAR_TYPES and not entry.issparse()  # a hole can be of any size
    reader = archive.extractfile(entry) if is_plain else None
    if reader is None:
        raise GridbenchError(f"the code that came holds {name[:200]!r}, which is neither plain file nor link")
    content = reader.read()
    digest = hashlib.sha256(content).hexdigest()
    return TreeFile(name, bool(entry.mode & 0o100), len(content), digest), content


def _check_parents(entries: dict[str, tuple[TreeFile, bytes]]) -> None:
    """Refuse names that would be written through a link, or below a file."""
    for name in entries:
        for parent in PurePosixPath(name).parents:
            if str(parent) in entries:
                raise GridbenchError(f"the code that came holds {name[:200]!r} below a file or a link")
