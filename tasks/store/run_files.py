"""Read runs from a block, and copy them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from tasks.store.block import is_s3
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import path_inside, write_whole

if TYPE_CHECKING:
    from tasks.store.block import Storage

PLAN = "plan.json"
AT_ONCE = 8  # requests: most files are small, and latency dominates


class RunFiles(Protocol):
    """Files of runs in a block; each key begins with the run's name."""

    def runs(self) -> Iterable[str]:
        """Return folders; not all need be runs."""

    def below(self, key: str) -> Iterable[str]:
        """Return keys of a folder's files."""

    def sizes(self, key: str) -> dict[str, int]:
        """Return bytes by key."""

    def read(self, key: str) -> bytes | None: ...


def copy(stored: RunFiles, key: str, folder: Path) -> bool:
    """Copy a missing file; return whether it is here.

    Keys that lead out of the folder are not copied, because others can write them.

    Raises:
        WorkloadsError: the folder can't be written.
    """
    if not is_inside(key):
        return False
    path = path_inside(folder, key)
    if not path.is_file():
        content = stored.read(key)
        if content is None:
            return False
        write_whole(path, content)
    return True


def is_inside(key: str) -> bool:
    """Return whether it stays below its folder."""
    try:
        return bool(path_inside(Path(), key))
    except WorkloadsError:
        return False


def run_files_of(storage: "Storage") -> RunFiles:
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

    def sizes(self, key: str) -> dict[str, int]:
        return {name: (self.root / name).stat().st_size for name in self.below(key)}

    def read(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class _S3:
    client: Any  # of boto3; threads can share it
    bucket: str
    start: str

    def runs(self) -> list[str]:
        pages = self._pages(Prefix=self.start, Delimiter="/")
        return [
            PurePosixPath(item["Prefix"]).name for page in pages for item in page.get("CommonPrefixes", ())
        ]

    def below(self, key: str) -> list[str]:
        return [*self.sizes(key)]

    def sizes(self, key: str) -> dict[str, int]:
        pages = self._pages(Prefix=f"{self.start}{key}/")
        items = (item for page in pages for item in page.get("Contents", ()))
        return {item["Key"][len(self.start) :]: item["Size"] for item in items}

    def read(self, key: str) -> bytes | None:
        try:
            found = self.client.get_object(Bucket=self.bucket, Key=self.start + key)
        except self.client.exceptions.NoSuchKey:
            return None
        return bytes(found["Body"].read())

    def _pages(self, **asked: str) -> Any:
        return self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, **asked)
