"""A results store in a bucket; its working copy is the folder here."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from tasks.errors import GridbenchError, one_line
from tasks.store.address import ResultsAddress
from tasks.store.block import is_s3, load_block, write
from tasks.store.run_files import AT_ONCE, PLAN, copy, run_files_of
from tasks.store.store import RECORDS, Store
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import path_inside

if TYPE_CHECKING:
    from prefect_aws import AwsCredentials, MinIOCredentials

    from tasks.store.block import Storage

EVERY_S = 5.0
TRIES = 4
MOST_LINK_S = 7 * 24 * 3600  # longest validity of a signature of version 4


class LinkSettings(BaseSettings):
    """`GRIDBENCH_REPORT_LINK_S` for links to reports."""

    model_config = SettingsConfigDict(env_prefix="GRIDBENCH_")

    report_link_s: int = Field(
        default=0,
        ge=0,
        le=MOST_LINK_S,
        description="Seconds for which the link to the report is valid for anyone who has it; 0: no link.",
    )


@dataclass(slots=True)
class Bucket:
    """A block, and files sent from here."""

    name: str
    storage: "Storage"
    _sent: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _new: set[Path] = field(default_factory=set)
    _looked: bool = False

    @classmethod
    def of(cls, results: ResultsAddress) -> Self | None:
        """Return None for a folder.

        Raises:
            GridbenchError: no such block, or no answer.
        """
        return cls.load(results.block) if results.block else None

    @classmethod
    def load(cls, name: str) -> Self:
        """Find a block by type and name.

        Raises:
            GridbenchError: no such block, or no answer.
        """
        from prefect.settings import PREFECT_API_URL

        if not PREFECT_API_URL.value():
            raise GridbenchError(
                f"results={name!r} is a block on a Prefect server: set PREFECT_API_URL to the one that has it"
            )
        try:
            return cls(name, load_block(name))
        except Exception as error:  # blocks raise anything
            raise GridbenchError(
                f"results={name!r} is not a block of this Prefect server; save it there under Blocks "
                f"({one_line(error)})"
            ) from None

    def note(self, path: Path) -> None:
        """Note a file, so that `send_new` need not search for it."""
        self._new.add(path)

    def send_new(self, folder: Path) -> None:
        """Copy noted files.

        Raises:
            GridbenchError: refused; the files stay noted.
        """
        self._send_all(folder, list(self._new))

    def send(self, folder: Path) -> None:
        """Copy new and changed files.

        Raises:
            GridbenchError: refused; local files stay.
        """
        if not self._looked:
            self._looked = True
            self._look(folder)
        self._send_all(folder, sorted(path for path in folder.rglob("*") if path.is_file()))

    def _look(self, folder: Path) -> None:
        """Note which records are there: they never change, and a run can have thousands."""
        with suppress(Exception):  # with write permission alone, files are only sent again
            for key, size in run_files_of(self.storage).sizes(f"{folder.name}/{RECORDS}").items():
                path = path_inside(folder.parent, key)
                if path.is_file() and path.stat().st_size == size:
                    self._sent[path] = _mark(path)

    def _send_all(self, folder: Path, paths: Sequence[Path]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda path: self._send_one(folder, path), paths):
                continue

    def _send_one(self, folder: Path, path: Path) -> None:
        try:
            if self._sent.get(path) != (mark := _mark(path)):
                key = f"{folder.name}/{path.relative_to(folder).as_posix()}"
                write(self.storage, key, path.read_bytes())
                self._sent[path] = mark
            self._new.discard(path)
        except FileNotFoundError:
            self._new.discard(path)  # it was being written, under another name
        except Exception as error:
            raise GridbenchError(
                f"results: {self.name} does not take {path.name}: {one_line(error)}"
            ) from None

    def fetch(self, run: str, folder: Path) -> None:
        """Copy a run's folder from the bucket.

        Raises:
            GridbenchError: it can't be read, or has no such run.
        """
        try:
            path_inside(folder, run)
            stored = run_files_of(self.storage)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda key: copy(stored, key, folder), stored.below(run)))
        except WorkloadsError as error:
            raise GridbenchError(f"results: {error}") from None
        except Exception as error:  # storages raise anything
            raise GridbenchError(f"results: {self.name} can't be read: {one_line(error)}") from None
        if not (folder / run / PLAN).is_file():
            raise GridbenchError(f"run {run!r} is unknown in {self.name}; give its whole name")

    def link(self, key: str) -> str | None:
        """Return a file's address.

        An s3:// path, or by `GRIDBENCH_REPORT_LINK_S` a link for anyone.
        """
        if not is_s3(self.storage):
            return None
        lasts_s = LinkSettings().report_link_s
        if lasts_s:
            return self.signed(key, lasts_s, "text/html; charset=utf-8")
        return f"s3://{self.storage.bucket_name}/{self._whole(key)}"

    def signed(self, key: str, lasts_s: int, content_type: str | None = None) -> str | None:
        """Return an address that gives anyone the file."""
        if not is_s3(self.storage):
            return None
        name = self.storage.bucket_name
        told = {"ResponseContentType": content_type} if content_type else {}
        wanted = {"Bucket": name, "Key": self._whole(key), **told}
        client = _signer(self.storage.credentials, name)
        return str(client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=lasts_s))

    def _whole(self, key: str) -> str:
        folder = str(getattr(self.storage, "bucket_folder", "") or "").strip("/")
        return "/".join(filter(None, (folder, key)))


def _signer(credentials: "AwsCredentials | MinIOCredentials", bucket: str) -> Any:
    """Sign for the bucket's own region by version 4: most regions require that."""
    from botocore.client import Config  # needed only for a bucket
    from botocore.exceptions import BotoCoreError, ClientError

    client = credentials.get_client("s3")
    region = client.meta.region_name
    with suppress(BotoCoreError, ClientError):  # some stores and policies do not answer
        region = client.head_bucket(Bucket=bucket).get("BucketRegion", region)
    options = credentials.aws_client_parameters.get_params_override()
    config = client.meta.config.merge(Config(signature_version="s3v4"))
    session = credentials.get_boto3_session()
    return session.client("s3", **options | {"region_name": region, "config": config})


def _mark(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


class Mirror:
    """A sender of a run's files to its bucket, as they come."""

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
        is_there = False  # once all files are sent, only new ones are examined
        while True:
            is_there = await self._send(new=is_there)
            await asyncio.sleep(EVERY_S)

    async def _send(self, new: bool = False) -> bool:
        try:
            if new and self._store.bucket:
                await asyncio.to_thread(self._store.bucket.send_new, self._store.folder)
            else:
                await send(self._store)
        except GridbenchError as error:
            if str(error) != self._told:
                self._say(f"{error}; everything is in {self._store.folder}, and it is tried again")
            self._told = str(error)
            return new
        return True


def find(results: ResultsAddress, run: str) -> Store:
    """Return a run, copied from its bucket if needed.

    Raises:
        GridbenchError: there is no such run, or its bucket can't be read.
    """
    try:
        here = path_inside(results.folder, run)
    except WorkloadsError as error:
        raise GridbenchError(f"run {run!r} is not the name of a run: {error}") from None
    whole = (here / "plan.json").is_file() and (here / "records").is_dir()  # history brings no records
    if results.block and not whole:
        Bucket.load(results.block).fetch(run, results.folder)
    return Store.open(results.folder, run)


async def send(store: Store) -> None:
    """Copy a run into its bucket, if any.

    Raises:
        GridbenchError: the bucket refuses.
    """
    if store.bucket:
        await asyncio.to_thread(store.bucket.send, store.folder)


async def hand_in(store: Store, report: Path) -> str | None:
    """Send a finished run; return a link to its report if possible.

    Raises:
        GridbenchError: the bucket refuses after some tries.
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
