"""A folder of runs, each written once and never changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tasks.errors import GridbenchError
from tasks.planning.plan import Plan, read_plan
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import (
    path_inside,
    read_records,
    record_path,
    write_record,
    write_text,
)
from workloads.harness.records.printable import printable_lines
from workloads.harness.records.record import Record

RECORDS = "records"
REFUSED = "refused"  # the folder of a run with unrequested texts from lanes
LISTED = 3  # files that a sentence names before it counts the rest
REPORTS_URL = "GRIDBENCH_REPORTS_URL"  # URL of a results folder that is served to browsers
REPORTS_FOLDER = "GRIDBENCH_REPORTS_FOLDER"  # the served folder: another user's run can be elsewhere


class RunBucket(Protocol):
    """A bucket with copies of runs."""

    name: str

    def note(self, path: Path) -> None: ...

    def send_new(self, folder: Path) -> None:
        """Copy noted files."""

    def send(self, folder: Path) -> None:
        """Copy new and changed files."""

    def link(self, key: str) -> str | None: ...

    def signed(self, key: str, lasts_s: int) -> str | None:
        """Return an address that gives anyone the file."""


@dataclass(frozen=True, slots=True)
class Store:
    """One run's `plan.json`, `records/<cell>/<repeat>.json`, and derived files.

    `bucket` gets a copy.
    """

    folder: Path
    bucket: RunBucket | None = field(default=None, compare=False)

    @classmethod
    def create(cls, results: Path, plan: Plan, bucket: RunBucket | None = None) -> "Store":
        """Make a new run's folder and write its plan.

        Raises:
            GridbenchError: unwritable, or the disk is full.
        """
        store = cls(results / plan.run, bucket)
        try:
            write_text(store.folder / "plan.json", plan.model_dump_json(indent=1) + "\n")
            (store.folder / RECORDS).mkdir(exist_ok=True)  # a run without it is fetched from its bucket
        except (WorkloadsError, OSError) as error:
            raise GridbenchError(f"results: {error}") from None
        return store

    @classmethod
    def open(cls, results: Path, run: str, bucket: RunBucket | None = None) -> "Store":
        """Find a run by an unambiguous beginning of its name.

        Raises:
            GridbenchError: none, or several.
        """
        if not run or "/" in run or run.startswith("."):
            raise GridbenchError(
                f"run {run!r} is not the name of a run; the runs are the folders in {results}"
            )
        matches = [results / name for name in sorted(runs(results)) if name.startswith(run)]
        exact = [path for path in matches if path.name == run]
        if not matches:
            raise GridbenchError(f"run {run!r} is unknown in {results}")
        if len(matches) > 1 and not exact:
            names = ", ".join(path.name for path in matches[:5])
            raise GridbenchError(f"run {run!r} matches {names}; give more of the name")
        return cls((exact or matches)[0], bucket)

    @property
    def plan(self) -> Plan:
        """Read `plan.json`.

        Raises:
            GridbenchError: corrupt or of another version.
        """
        path = self.folder / "plan.json"
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            raise GridbenchError(f"{path} can't be read ({error.strerror})") from None
        return read_plan(text, str(path))

    def add(self, record: Record) -> bool:
        """Return False if that repeat is there already.

        Raises:
            GridbenchError: unwritable, or the disk is full.
        """
        try:
            if not write_record(self.folder / RECORDS, record):
                return False
            path = self.folder / RECORDS / record_path(record)
        except (WorkloadsError, OSError) as error:
            raise GridbenchError(f"results: {error}") from None
        self._note(path, path.with_suffix(".profile.txt"))
        return True

    def _note(self, *paths: Path) -> None:
        if self.bucket:
            for path in paths:
                self.bucket.note(path)

    def keep_aside(self, name: str, text: str) -> Path:
        """Keep a refused text; return its path.

        Raises:
            GridbenchError: unwritable, or the disk is full.
        """
        path = path_inside(self.folder / REFUSED, f"{name}.txt")
        try:
            write_text(path, printable_lines(text) + "\n")
        except (WorkloadsError, OSError) as error:
            raise GridbenchError(f"results: {error}") from None
        self._note(path)
        return path

    def set_aside(self, record: Record) -> None:
        """Rename it for another try; its verdict becomes the suffix.

        Raises:
            GridbenchError: unwritable.
        """
        path = self.folder / RECORDS / record_path(record)
        try:
            path.replace(path.with_suffix(f".{record.verdict.value}"))
        except OSError as error:
            raise GridbenchError(f"results: {path} can't be moved ({error.strerror})") from None

    def records(self) -> tuple[list[Record], list[str]]:
        """Return records in the plan's order, and a sentence on each unreadable file.

        Raises:
            GridbenchError: the folder or the plan can't be read.
        """
        folder = self.folder / "records"
        try:
            items = list(read_records(folder)) if folder.is_dir() else []
        except WorkloadsError as error:
            raise GridbenchError(f"results: {error}") from None
        cells = {cell: place for place, cell in enumerate(self.plan.cells)}
        records = [item for item in items if isinstance(item, Record)]
        records.sort(key=lambda record: (cells.get(record.cell, len(cells)), record.repeat))
        return records, [str(item) for item in items if isinstance(item, RecordError)]

    def unreadable(self, records: Sequence[Record]) -> list[str]:
        """Return sentences on files without one of these records, or with a misplaced one."""
        folder = self.folder / "records"
        known = {folder / path for path in map(_path, records) if path}
        left = [path for path in folder.rglob("*.json") if path.is_file() and path not in known]
        if not left:
            return []
        named = ", ".join(str(path.relative_to(folder)) for path in sorted(left)[:LISTED])
        more = f" and {len(left) - LISTED} more" if len(left) > LISTED else ""
        return [
            f"{len(left)} files hold no record that can be read, or one of another repeat: {named}{more}."
        ]


def _path(record: Record) -> Path | None:
    try:
        return record_path(record)
    except WorkloadsError:
        return None


def runs(results: Path) -> Iterable[str]:
    """Return the newest first."""
    return sorted((path.parent.name for path in results.glob("*/plan.json")), reverse=True)
