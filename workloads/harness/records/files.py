"""Files of records: one JSON file a repeat, or one record a line."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import profile_table


def record_path(record: Record | Repeat) -> Path:
    """Return a repeat's path below `records/`; an id that would lead elsewhere is refused."""
    return path_inside(Path(), f"{record.cell.id}/{record.repeat}.json")


def path_inside(folder: Path, key: str) -> Path:
    """Return the path below a folder that a slash-separated key leads to, or raise WorkloadsError.

    Pass every name that comes from elsewhere through here before you write.
    """
    parts = key.split("/")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise WorkloadsError(
                f"{key!r} has the part {part!r}, which is not a valid name of a folder or file"
            )
    return folder.joinpath(*parts)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(path: Path, error: OSError) -> WorkloadsError:
    return WorkloadsError(f"{path} can't be written ({error.strerror}); name another folder or make room")


def write_text(path: Path, text: str) -> None:
    write_whole(path, text.encode())


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically, or raise WorkloadsError."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
            temporary = file.name
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
        raise _unwritable(path, error) from None


def write_record(folder: Path, record: Record) -> bool:
    """Write a record once; return False if that repeat exists already.

    Its profile becomes `<repeat>.profile.txt` next to it. An unreadable file is moved aside.
    """
    path = folder / record_path(record)
    if path.exists():
        records = list(read_records(path))
        if records and all(isinstance(item, Record) for item in records):
            return False
        os.replace(path, path.with_suffix(".unreadable"))
    if record.profile:  # first: once the record is there, all of it is
        write_text(path.with_suffix(".profile.txt"), profile_table(record.profile) + "\n")
    write_text(path, record.to_json() + "\n")
    return True


def read_records(path: Path) -> Iterator[Record | RecordError]:
    if not path.exists():
        raise WorkloadsError(f"{path} does not exist; name a file of records or a run's folder")
    folder = path / "records" if (path / "records").is_dir() else path  # a run has other JSON files too
    for file in sorted(filter(Path.is_file, folder.rglob("*.json"))) if path.is_dir() else [path]:
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError as error:
            raise WorkloadsError(f"{file} can't be read ({error.strerror})") from None
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    yield Record.from_json(line)
            except RecordError as error:
                yield RecordError(f"{file}, line {number}: {error}")
