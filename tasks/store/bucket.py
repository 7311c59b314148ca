"""A results store in a bucket, by a Prefect storage block: the folder here is its working copy."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from tasks.errors import GridbenchError, one_line
from tasks.store.block import copy_folder, is_block, is_s3, load_block, write
from tasks.store.store import DEFAULT, Store

if TYPE_CHECKING:
    from prefect_aws import AwsCredentials, MinIOCredentials

    from tasks.store.block import Storage

EVERY_S = 5.0
TRIES = 4
LINK_S = 7 * 24 * 3600  # the longest that a signature of version 4 is good for


def folder_of(results: str | Path | None) -> Path:
    """The folder on this machine in which the runs of a results store are, or their working copies."""
    return DEFAULT if not results or is_block(results) else Path(results)


@dataclass(slots=True)
class Bucket:
    """A storage block, and which files it has got from here."""

    name: str
    storage: "Storage"
    _sent: dict[Path, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str) -> Self:
        """Find a block by its type and name.

        Raises:
            GridbenchError: the Prefect server has no such block, or does not answer.
        """
        from prefect.settings import PREFECT_API_URL

        if not PREFECT_API_URL.value():
            raise GridbenchError(
                f"results={name!r} is a block on a Prefect server: set PREFECT_API_URL to the one that has it"
            )
        try:
            return cls(name, load_block(name))
        except Exception as error:  # blocks raise whatever their libraries do
            raise GridbenchError(
                f"results={name!r} is no block of this Prefect server, save it there under Blocks "
                f"({one_line(error)})"
            ) from None

    def send(self, folder: Path) -> None:
        """Copy what is new or changed in the folder of a run.

        Raises:
            GridbenchError: the bucket does not take it; what is here stays.
        """
        for path in sorted(folder.rglob("*")):
            try:
                if path.is_file() and self._sent.get(path) != (mark := _mark(path)):
                    key = f"{folder.name}/{path.relative_to(folder).as_posix()}"
                    write(self.storage, key, path.read_bytes())
                    self._sent[path] = mark
            except FileNotFoundError:
                continue  # it was being written, under another name
            except Exception as error:
                raise GridbenchError(
                    f"results: {self.name} does not take {path.name}: {one_line(error)}"
                ) from None

    def fetch(self, run: str, folder: Path) -> None:
        """Copy the folder of a run from the bucket.

        Raises:
            GridbenchError: it can't be read, or has no such run.
        """
        start = str(getattr(self.storage, "bucket_folder", "") or "").strip("/")
        try:
            copy_folder(self.storage, f"{start}/{run}/".lstrip("/"), folder / run)
        except Exception as error:
            raise GridbenchError(f"results: {self.name} can't be read: {one_line(error)}") from None
        if not (folder / run / "plan.json").is_file():
            raise GridbenchError(f"run {run!r} is unknown in {self.name}; give its whole name")

    def link(self, key: str) -> str | None:
        """An address that shows a file to whoever has it, for a week at most; None where a block has none."""
        if not is_s3(self.storage):
            return None
        client = _signer(self.storage.credentials, self.storage.bucket_name)
        wanted = {
            "Bucket": self.storage.bucket_name,
            "Key": "/".join(filter(None, (str(self.storage.bucket_folder or "").strip("/"), key))),
            "ResponseContentType": "text/html; charset=utf-8",
        }
        return str(client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=LINK_S))


def _signer(credentials: "AwsCredentials | MinIOCredentials", bucket: str) -> Any:
    """Return a client that signs for the bucket's own region by version 4: most regions take no other."""
    from botocore.client import Config  # whoever has no bucket needs no botocore
    from botocore.exceptions import BotoCoreError, ClientError

    client = credentials.get_client("s3")
    region = client.meta.region_name
    with suppress(BotoCoreError, ClientError):  # some stores, and some policies, do not tell
        region = client.head_bucket(Bucket=bucket).get("BucketRegion", region)
    options = credentials.aws_client_parameters.get_params_override()
    config = client.meta.config.merge(Config(signature_version="s3v4"))
    session = credentials.get_boto3_session()
    return session.client("s3", **options | {"region_name": region, "config": config})


def _mark(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


class Mirror:
    """Sends the run's files to its bucket while they come, and what is left at the end."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self._store, self._say, self._told = store, say, ""

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._follow()) if self._store.bucket else None
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._watch:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            await self._send()

    async def _follow(self) -> None:
        while True:
            await self._send()
            await asyncio.sleep(EVERY_S)

    async def _send(self) -> None:
        """Send the files; report an unreachable bucket once, and try again later."""
        try:
            await send(self._store)
        except GridbenchError as error:
            if str(error) != self._told:
                self._say(f"{error}; everything is in {self._store.folder}, and it is tried again")
            self._told = str(error)


def find(results: str | Path, run: str) -> Store:
    """The folder of an earlier run, from its bucket where it is not here.

    Raises:
        GridbenchError: there is no such run, or its bucket can't be read.
    """
    folder = folder_of(results)
    here = folder / run
    whole = (here / "plan.json").is_file() and (here / "records").is_dir()  # history brings no records
    if is_block(results) and not whole:
        Bucket.load(str(results)).fetch(run, folder)
    return Store.open(folder, run)


async def send(store: Store) -> None:
    """Copy what a run has into its bucket, if it has one.

    Raises:
        GridbenchError: the bucket does not take it.
    """
    if store.bucket:
        await asyncio.to_thread(store.bucket.send, store.folder)


async def hand_in(store: Store, report: Path) -> str | None:
    """Send all that a finished run has; returns a link to its report where its bucket can give one.

    Raises:
        GridbenchError: the bucket does not take it, after some tries.
    """
    if store.bucket is None:
        return None
    waits = wait_exponential(multiplier=1, max=10)
    try:
        async for attempt in AsyncRetrying(stop=stop_after_attempt(TRIES), wait=waits, reraise=True):
            with attempt:
                await send(store)
    except GridbenchError as error:
        again = f"`gridbench resume {store.folder.name} --results {store.bucket.name}` sends it again"
        raise GridbenchError(f"{error}; everything is in {store.folder}, {again}") from None
    return await asyncio.to_thread(store.bucket.link, f"{store.folder.name}/{report.name}")
