"""Unsent records on disk, for a later lane."""

from contextlib import suppress

from tasks.delivery.job_orders import identity
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import path_inside, read_records, record_path, write_record
from workloads.harness.records.places import home
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat

FOLDER = home() / ".gridbench" / "unsent"


def save(record: Record) -> None:
    """Keep a record, unless the disk is full or not writable."""
    with suppress(WorkloadsError, OSError):
        write_record(path_inside(FOLDER, record.run), record)


def delete(record: Record) -> None:
    with suppress(WorkloadsError, OSError):
        (path_inside(FOLDER, record.run) / record_path(record)).unlink(missing_ok=True)


def saved_record(repeat: Repeat) -> Record | None:
    """Return an earlier lane's unsent record."""
    try:
        folder = path_inside(FOLDER, repeat.run)
    except WorkloadsError:
        return None
    for item in read_records(folder) if folder.is_dir() else ():
        if isinstance(item, Record) and identity(item) == identity(repeat):
            return item
    return None
