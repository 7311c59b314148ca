"""Records on their way through the Prefect API, as artifacts: a box needs only Prefect's credentials."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.artifacts import Artifact
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import PrefectException
from tenacity import retry, retry_if_exception, stop_after_delay, wait_exponential

from workloads.harness.records.errors import RecordError
from workloads.harness.records.files import read_records, write_record
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat

TYPE = "bench-record"
PATIENCE_S = 600.0  # a lane tries so long to deliver a record while the API is unreachable
PAGE = 100
UNSENT = Path.home() / ".gridbench" / "unsent"
WILL_PASS = (408, 425, 429)  # HTTP statuses of a server that is busy
LOST_TOUCH = (httpx.HTTPError, PrefectException, OSError)


def key_of(record: Record) -> str:
    """Return an artifact key of lower-case letters, digits and dashes for a record's run, cell and repeat."""
    return re.sub(r"[^a-z0-9]+", "-", f"{record.run}-{record.cell.id}-{record.repeat}".lower()).strip("-")


def refused(error: Exception) -> bool:
    """Return whether the API has refused for good, so that asking again is no use."""
    code = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
    return 400 <= code < 500 and code not in WILL_PASS


def words_of(error: Exception) -> str:
    """Return the API's reason for refusing a request."""
    if isinstance(error, httpx.HTTPStatusError):
        with suppress(ValueError, AttributeError):  # the answer of a proxy may be no JSON, or no object
            return " ".join(str(error.response.json().get("detail") or error).split())
    return " ".join(str(error).split())


def send(record: Record, say: Callable[[str], None], patience_s: float = PATIENCE_S) -> None:
    """Send a record to the `bench` that started this flow run; keep it on this box if that fails.

    A second send after a lost answer is harmless: the results store takes each repeat once.
    """

    @retry(
        retry=retry_if_exception(lambda error: isinstance(error, LOST_TOUCH) and not refused(error)),
        stop=stop_after_delay(patience_s),
        wait=wait_exponential(multiplier=0.5, max=15),
        before_sleep=lambda attempt: say(f"the Prefect API does not answer, trying again: {attempt.outcome}"),
        reraise=True,
    )
    def create() -> None:
        Artifact(type=TYPE, key=key_of(record), data=asdict(record)).create()

    try:
        create()
    except LOST_TOUCH as error:
        write_record(UNSENT / record.run, record)
        say(f"record {record.id} is kept in {UNSENT / record.run}: {error}")


def kept(repeat: Repeat) -> Record | None:
    """Return the record of a repeat that an earlier lane could not send from here, if there is one."""
    folder = UNSENT / repeat.run
    identity = (repeat.hardware, repeat.case, repeat.repeat)
    for item in read_records(folder) if folder.is_dir() else ():
        if isinstance(item, Record) and (item.hardware, item.case, item.repeat) == identity:
            return item
    return None


class Inbox:
    """A reader of records as they come, each once; a poll that finds none costs one small query."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._seen: set[UUID] = set()

    async def new(self, flow_run_ids: Iterable[UUID]) -> tuple[list[Record], list[str]]:
        """Return the records since the last call, oldest first, and a sentence for each unreadable one."""
        ours = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=list(flow_run_ids)), type=ArtifactFilterType(any_=[TYPE])
        )
        body = {"artifacts": ours.model_dump(mode="json", exclude_unset=True)}
        total = (await self._client.request("POST", "/artifacts/count", json=body)).json()
        fresh: dict[UUID, Any] = {}
        offset = 0
        while len(self._seen) + len(fresh) < total:
            size = min(total - len(self._seen) - len(fresh), PAGE)
            page = await self._client.read_artifacts(
                artifact_filter=ours, sort=ArtifactSort.CREATED_DESC, limit=size, offset=offset
            )
            if not page:
                break
            offset += len(page)
            fresh |= {artifact.id: artifact for artifact in page if artifact.id not in self._seen}
        self._seen |= fresh.keys()
        records, problems = [], []
        for artifact in reversed(fresh.values()):
            try:
                records.append(Record.from_json(str(artifact.data)))
            except RecordError as error:
                problems.append(f"artifact {artifact.key}: {error}")
        return records, problems
