"""Bring what history needs of a bucket's runs into their working copies here, and nothing else."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from tasks.errors import GridbenchError, one_line
from tasks.store.block import is_block, is_s3
from tasks.store.bucket import Bucket, folder_of
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_whole

if TYPE_CHECKING:
    from tasks.store.block import Storage

PLAN, TABLE, RECORDS = "plan.json", "results.parquet", "records"
AT_ONCE = 8  # requests: a night is two small files, and most of the time is the way there


class Shelf(Protocol):
    """Where a block keeps its runs; keys begin with the run's name."""

    def runs(self) -> Iterable[str]:
        """Names of folders; not all of them need be runs."""

    def below(self, key: str) -> Iterable[str]:
        """Keys of all files in a folder."""

    def read(self, key: str) -> bytes | None:
        """A file's content; None where there is none."""


def bring(results: str | Path, files: Iterable[str] = (TABLE,)) -> Path:
    """The folder on this machine with the runs of a results store; from a bucket, what is not here yet comes.

    Of each run come its plan, the `files` that it has and, where it was cut short before it had a table, its
    records. A file that is here is not asked for again: a run is written once.

    Raises:
        GridbenchError: the bucket can't be read, or the folder can't be written.
    """
    folder = folder_of(results)
    if is_block(results):
        fetch_history(Bucket.load(str(results)), folder, files)
    return folder


def fetch_history(bucket: Bucket, folder: Path, files: Iterable[str] = (TABLE,)) -> None:
    """Copy what is missing here, as `bring` says.

    Raises:
        GridbenchError: the bucket can't be read, or the folder can't be written.
    """
    wanted = (PLAN, *files)
    try:
        shelf = shelf_of(bucket.storage)
        names = [name for name in shelf.runs() if _inside(name)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: _fetch(shelf, name, folder, wanted), names))
    except WorkloadsError as error:
        raise GridbenchError(f"results: {error}") from None
    except Exception as error:  # storages raise whatever their libraries do
        raise GridbenchError(f"results: {bucket.name} can't be read: {one_line(error)}") from None


def _fetch(shelf: Shelf, run: str, folder: Path, wanted: Iterable[str]) -> None:
    """One run's files; a folder without a plan is no run."""
    for name in wanted:
        if not _copy(shelf, f"{run}/{name}", folder) and name == PLAN:
            return
    if not (folder / run / TABLE).is_file():
        for key in shelf.below(f"{run}/{RECORDS}"):
            if _inside(key):
                _copy(shelf, key, folder)


def _copy(shelf: Shelf, key: str, folder: Path) -> bool:
    """Bring one file, where it is not here; returns whether it is here now."""
    path = folder / key
    if not path.is_file():
        content = shelf.read(key)
        if content is None:
            return False
        write_whole(path, content)
    return True


def _inside(key: str) -> bool:
    """Return whether a key stays below the folder that it is copied to."""
    return not key.startswith("/") and not {"", ".", ".."} & {*key.split("/")}


def shelf_of(storage: "Storage") -> Shelf:
    """The shelf behind a storage block."""
    if not is_s3(storage):
        return _Folder(Path(storage.basepath or ".").expanduser().resolve())
    start = str(storage.bucket_folder or "").strip("/")
    return _S3(storage.credentials.get_client("s3"), storage.bucket_name, f"{start}/" if start else "")


@dataclass(frozen=True, slots=True)
class _Folder:
    root: Path

    def runs(self) -> list[str]:
        return [path.parent.name for path in self.root.glob(f"*/{PLAN}")]

    def below(self, key: str) -> list[str]:
        found = (path for path in (self.root / key).rglob("*") if path.is_file())
        return [path.relative_to(self.root).as_posix() for path in found]

    def read(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class _S3:
    client: Any  # of boto3, which threads may share
    bucket: str
    start: str

    def runs(self) -> list[str]:
        pages = self._pages(Prefix=self.start, Delimiter="/")
        return [
            PurePosixPath(item["Prefix"]).name for page in pages for item in page.get("CommonPrefixes", ())
        ]

    def below(self, key: str) -> list[str]:
        pages = self._pages(Prefix=f"{self.start}{key}/")
        return [item["Key"][len(self.start) :] for page in pages for item in page.get("Contents", ())]

    def read(self, key: str) -> bytes | None:
        try:
            found = self.client.get_object(Bucket=self.bucket, Key=self.start + key)
        except self.client.exceptions.NoSuchKey:
            return None
        return bytes(found["Body"].read())

    def _pages(self, **asked: str) -> Any:
        return self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, **asked)
