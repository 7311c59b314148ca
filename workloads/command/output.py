"""Output of commands: progress, and records, in a file if they cannot be printed."""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import record_path, write_record
from workloads.harness.records.record import Record

PREFIX = "gridbench-records-"  # of the file that gets what standard output refuses
SHARED_MEMORY = "/dev/shm"


def say(text: str) -> None:
    with suppress(OSError):  # a full disk behind standard error must not end a measurement
        print(text, file=sys.stderr, flush=True)


class Records:
    """Records on their way to a folder or standard output, else to the file `kept`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.kept: Path | None = None
        self._folder = folder

    def put(self, record: Record) -> None:
        if not self.kept:
            try:
                return self._put(record)
            except (WorkloadsError, OSError) as error:
                self.kept = _new_file()
                say(f"{_reason(error)}: records are kept in {self.kept}")
        try:
            with self.kept.open("a") as file:
                print(record.to_json(), file=file, flush=True)
                os.fsync(file.fileno())
        except OSError as error:
            raise WorkloadsError(f"{self.kept} can't be written ({error.strerror}); make room") from None

    def _put(self, record: Record) -> None:
        if self._folder is None:
            print(record.to_json(), flush=True)
        elif not write_record(self._folder, record):
            say(f"{self._folder / record_path(record)} already exists and was not changed")


def close(code: int) -> int:
    """Flush the standard streams; return the exit code, 1 if text was lost."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has left, as in `show … | head`
        pass
    except OSError as error:
        say(f"error: {_reason(error)}")
        code = code or 1
    with suppress(OSError):
        sys.stderr.flush()
    return code


def _reason(error: Exception) -> str:
    return (
        f"standard output can't be written ({error.strerror})" if isinstance(error, OSError) else str(error)
    )


def _new_file() -> Path:
    for folder in (os.curdir, tempfile.gettempdir(), SHARED_MEMORY, os.path.expanduser("~")):
        with suppress(OSError):
            return _file_in(folder)
    raise WorkloadsError("a record can't be kept: no folder of this machine can be written; make room")


def _file_in(folder: str) -> Path:
    room = os.statvfs(folder)
    if not room.f_bavail * room.f_frsize:  # an empty file needs none
        raise OSError(f"{folder} is full")
    file: IO[bytes]
    with tempfile.NamedTemporaryFile(dir=folder, prefix=PREFIX, suffix=".json", delete=False) as file:
        return Path(file.name).absolute()
