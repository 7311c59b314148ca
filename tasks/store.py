"""The results store: a folder of runs, each written once and never changed."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.plan import Plan, read_plan
from workloads.harness.errors import RecordError, WorkloadsError
from workloads.harness.files import read_records, record_path, write_record, write_text
from workloads.harness.record import Record

DEFAULT = Path(os.environ.get("GRIDBENCH_RESULTS") or Path(__file__).parents[1] / "results")
REPORTS_URL = "GRIDBENCH_REPORTS_URL"  # where a results folder is served to browsers, if one is
REPORTS_FOLDER = "GRIDBENCH_REPORTS_FOLDER"  # which one: the run of somebody who joined may lie elsewhere


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of one run: `plan.json`, `records/<cell>/<repeat>.json`, and what is made from them."""

    folder: Path

    @classmethod
    def create(cls, results: Path, plan: Plan) -> "Store":
        """Make the folder of a new run and write its plan.

        Raises:
            GridbenchError: the folder can't be written, or the disk is full.
        """
        store = cls(results / plan.run)
        try:
            write_text(store.folder / "plan.json", plan.model_dump_json(indent=1) + "\n")
        except WorkloadsError as error:
            raise GridbenchError(f"results: {error}") from None
        return store

    @classmethod
    def open(cls, results: Path, run: str) -> "Store":
        """Find the folder of an earlier run, by its name or by an unambiguous beginning of it.

        Raises:
            GridbenchError: there is no such run, or several.
        """
        if not run or "/" in run or run.startswith("."):
            raise GridbenchError(f"run {run!r} is no name of a run; see the folders in {results}")
        found = [results / name for name in sorted(runs(results)) if name.startswith(run)]
        exact = [path for path in found if path.name == run]
        if not found:
            raise GridbenchError(f"run {run!r} is unknown in {results}")
        if len(found) > 1 and not exact:
            names = ", ".join(path.name for path in found[:5])
            raise GridbenchError(f"run {run!r} may be any of {names}; give more of the name")
        return cls((exact or found)[0])

    @property
    def plan(self) -> Plan:
        """The run's plan.

        Raises:
            GridbenchError: it is corrupt or of another version.
        """
        path = self.folder / "plan.json"
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            raise GridbenchError(f"{path} can't be read ({error.strerror})") from None
        return read_plan(text, str(path))

    def add(self, record: Record) -> bool:
        """Write a record, once: False where that repeat is there already.

        Raises:
            GridbenchError: the folder can't be written, or the disk is full.
        """
        try:
            return write_record(self.folder / "records", record)
        except (WorkloadsError, OSError) as error:
            raise GridbenchError(f"results: {error}") from None

    def set_aside(self, record: Record) -> None:
        """Make room for another try at a repeat; its record stays, with its verdict as the suffix.

        Raises:
            GridbenchError: the folder can't be written.
        """
        path = self.folder / "records" / record_path(record)
        try:
            path.replace(path.with_suffix(f".{record.verdict.value}"))
        except OSError as error:
            raise GridbenchError(f"results: {path} can't be moved ({error.strerror})") from None

    def records(self) -> tuple[list[Record], list[str]]:
        """The records so far in the plan's order, and a sentence for each file that can't be read.

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


def runs(results: Path) -> Iterable[str]:
    """Names of the runs in a results folder, newest first."""
    return sorted((path.parent.name for path in results.glob("*/plan.json")), reverse=True)
