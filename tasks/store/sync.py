"""Only the files that history needs from a bucket."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks.errors import GridbenchError, one_line
from tasks.store.address import ResultsAddress
from tasks.store.bucket import Bucket
from tasks.store.run_files import AT_ONCE, PLAN, RunFiles, copy, is_inside, run_files_of
from tasks.store.store import RECORDS
from workloads.harness.records.errors import WorkloadsError

TABLE = "results.parquet"


def bring(results: ResultsAddress, files: Iterable[str] = (TABLE,)) -> Path:
    """Return the folder with a store's runs; fetch missing files from a bucket.

    Fetch plans, `files` and, without a table, records. An existing file is not fetched again: runs never
    change.

    Raises:
        GridbenchError: unreadable bucket, or unwritable folder.
    """
    if bucket := Bucket.of(results):
        fetch_history(bucket, results.folder, files)
    return results.folder


def fetch_history(bucket: Bucket, folder: Path, files: Iterable[str] = (TABLE,)) -> None:
    """Copy as `bring` does.

    Raises:
        GridbenchError: unreadable bucket, or unwritable folder.
    """
    wanted = (PLAN, *files)
    try:
        stored = run_files_of(bucket.storage)
        names = [name for name in stored.runs() if is_inside(name)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: _fetch(stored, name, folder, wanted), names))
    except WorkloadsError as error:
        raise GridbenchError(f"results: {error}") from None
    except Exception as error:  # storages raise anything
        raise GridbenchError(f"results: {bucket.name} can't be read: {one_line(error)}") from None


def _fetch(stored: RunFiles, run: str, folder: Path, wanted: Iterable[str]) -> None:
    """Skip folders without a plan, which are not runs."""
    for name in wanted:
        if not copy(stored, f"{run}/{name}", folder) and name == PLAN:
            return
    if not (folder / run / TABLE).is_file():
        for key in stored.below(f"{run}/{RECORDS}"):
            copy(stored, key, folder)
