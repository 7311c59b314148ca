"""A script's data: a folder, or a copy of an `s3://` address."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import GridbenchError, one_line
from tasks.travel.cache import DATA, cache_folders, locked_entry, mark_used, prune
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import path_inside

S3 = "s3://"
AT_ONCE = 16  # files
SPARE_BYTES = 1 << 30  # of the disk, for the run itself


class RemoteFile(NamedTuple):
    """Key, path below the address, size and hash."""

    key: str
    name: str
    bytes: int
    etag: str


def data_for(data: str, folder: Path) -> str:
    """Return the path here; data in a bucket is copied unless cached.

    `data`: a path relative to the code's `folder`, or `s3://BUCKET/PREFIX`.

    Raises:
        GridbenchError: it is missing, or can't be copied.
    """
    if data.startswith(S3):
        return str(_copied(data))
    path = folder / Path(data).expanduser()
    try:
        path.stat()
    except OSError as error:
        raise GridbenchError(
            f"data={data!r} is not on this machine ({error.strerror}); put it there, or name an {S3} address "
            "that it can read"
        ) from None
    return str(path)


def _copied(address: str) -> Path:
    bucket, _, prefix = address.removeprefix(S3).partition("/")
    prefix = prefix.strip("/")
    if not bucket:
        raise GridbenchError(f"data={address!r} names no bucket; an address is {S3}BUCKET/PREFIX")
    try:
        client = _client()
        files = list(_files(client, bucket, prefix))
    except Exception as error:  # boto3 raises anything
        raise GridbenchError(f"data={address!r} can't be read by this machine: {one_line(error)}") from None
    if not files:
        raise GridbenchError(f"data={address!r} holds no files; name a bucket and what its keys begin with")
    rows = sorted((file.name, file.bytes, file.etag) for file in files)
    name = hashlib.sha256(json.dumps([bucket, prefix, rows]).encode()).hexdigest()[:32]
    single = files[0].name if len(files) == 1 and files[0].key == prefix else ""
    try:
        for cached in cache_folders(DATA):
            if _is_whole(cached / name, files):
                mark_used(cached / name)
                return cached / name / single
        with locked_entry(DATA, name) as path:
            if not _is_whole(path, files):
                shutil.rmtree(path, ignore_errors=True)  # changed by a script
                _copy(client, bucket, files, path)
        prune(DATA)
    except (OSError, WorkloadsError) as error:
        raise GridbenchError(f"data={address!r} can't be cached on this machine: {one_line(error)}") from None
    return path / single


def _is_whole(folder: Path, files: Sequence[RemoteFile]) -> bool:
    """Compare sizes; hashing would take as long as a copy."""
    try:
        return all((folder / file.name).stat().st_size == file.bytes for file in files)
    except FileNotFoundError:
        return False


def _client() -> Any:
    """Read public buckets without credentials."""
    import boto3  # needed only for data in a bucket
    from botocore import UNSIGNED
    from botocore.client import Config

    session = boto3.Session()
    if session.get_credentials() is None:
        return session.client("s3", config=Config(signature_version=UNSIGNED))
    return session.client("s3")


def _files(client: Any, bucket: str, prefix: str) -> Iterator[RemoteFile]:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", ()):
            key = str(entry["Key"])
            name = key.removeprefix(prefix).lstrip("/") or key.rpartition("/")[2]
            is_within = not prefix or key == prefix or key.startswith(f"{prefix}/")
            if is_within and not key.endswith("/"):
                yield RemoteFile(key, name, int(entry["Size"]), str(entry["ETag"]))


def _copy(client: Any, bucket: str, files: list[RemoteFile], path: Path) -> None:
    total_bytes, free_bytes = sum(file.bytes for file in files), shutil.disk_usage(path.parent).free
    if total_bytes + SPARE_BYTES > free_bytes:
        raise GridbenchError(
            f"the data of {total_bytes / 1e9:.1f} GB does not fit on this machine, which has "
            f"{free_bytes / 1e9:.1f} GB free; free some, or name another folder in GRIDBENCH_KEPT"
        )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as scratch:
        whole = Path(scratch) / "data"

        def fetch(file: RemoteFile) -> None:
            target = path_inside(whole, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, file.key, str(target))

        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(fetch, files))
        except (OSError, WorkloadsError):
            raise
        except Exception as error:
            raise GridbenchError(f"data in bucket {bucket} can't be copied: {one_line(error)}") from None
        whole.rename(path)
