"""Upload records while the next repeat is measured.

While the API is away, records wait in memory, and on disk after a failed try. At the end the lane waits for
them until its job's deadline.
"""

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tasks.delivery import unsent_records
from tasks.delivery.api_trouble import refused, status_code
from tasks.delivery.artifact_encoding import TYPE, pieces_of, text_of
from workloads.harness.records.record import Record

TOO_LARGE = 413
KEEP_S = 3.0  # a longer request can be endless: a server waits a minute for a locked database
LEAST_BYTES = 1024  # smaller pieces are useless: they would all be refused


@contextmanager
def _if_slow(act: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(KEEP_S, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class UploaderSettings(BaseSettings):
    """Patience in seconds, from `GRIDBENCH_COURIER_RETRY_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="GRIDBENCH_COURIER_")

    every_s: float = Field(
        default=0.5,
        ge=0,
        description="The shortest wait between two uploads; records that end sooner are uploaded together.",
    )
    retry_s: float = Field(default=1, gt=0, description="Wait after a failed try; later ones double it.")
    longest_retry_s: float = Field(default=15, gt=0, description="The longest wait between two tries.")
    patience_s: float = Field(
        default=7200, ge=0, description="Wait for the API after the last repeat, in a job without a deadline."
    )
    leave_s: float = Field(default=5, ge=0, description="The same in a job that is being cancelled.")
    most_bytes: int = Field(default=262_144, ge=LEAST_BYTES, description="Records sent in one request.")


class RecordUploader:
    """Enter it, `put` records, and leave: it returns when all are sent, or can't be."""

    def __init__(
        self,
        flow_run_id: UUID,
        say: Callable[[str], None],
        every_s: float = 0.0,
        deadline: float | None = None,
        settings: UploaderSettings | None = None,
    ) -> None:
        """Set limits of an uploader.

        Args:
            say: when the API goes away, and when it is back.
            every_s: between uploads, if longer than the settings'.
            deadline: the job's, monotonic.
        """
        self._settings = settings or UploaderSettings()
        self._flow_run_id, self._say = flow_run_id, say
        self._every_s = max(every_s, self._settings.every_s)
        self._deadline, self._until = deadline, float("inf")
        self._queue: deque[Record] = deque()
        self._kept: set[str] = set()  # ids of records on disk
        self._disk = threading.Lock()
        self._news = threading.Condition()
        self._closing = self._is_away = self._is_slow = False
        self._most_bytes = self._settings.most_bytes
        self._retry_s = self._settings.retry_s
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="uploader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        now = time.monotonic()
        until = now + self._settings.patience_s if self._deadline is None else self._deadline
        with self._news:
            self._closing, self._until = True, min(until, now + self._settings.leave_s) if kind else until
            self._news.notify()
        self._thread.join()
        self._keep()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def put(self, record: Record) -> None:
        """Take a record, and return at once."""
        with self._news:
            self._queue.append(record)
            self._news.notify()
        if self._is_slow or self._is_away:
            self._keep()

    def _work(self) -> None:
        with get_client(sync_client=True) as client:
            while self._wait_for_records():
                sent_at = time.monotonic()
                try:
                    with _if_slow(self._keep_slow):
                        self._send(client, self._batch())
                except Exception as error:  # any kind: other records can still be sent
                    if not self._try_again(error):
                        return
                else:
                    self._is_slow = False
                    self._pause(sent_at + self._every_s)

    def _wait_for_records(self) -> bool:
        with self._news:
            self._news.wait_for(lambda: self._queue or self._closing)
            return bool(self._queue)

    def _pause(self, until: float) -> None:
        with self._news:
            self._news.wait_for(lambda: self._closing, max(until - time.monotonic(), 0))

    def _batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        for record in self._snapshot():
            size += len(record.to_json()) + 1
            if batch and size > self._most_bytes:
                break
            batch.append(record)
        return batch

    def _snapshot(self) -> list[Record]:
        with self._news:
            return list(self._queue)

    def _send(self, client: SyncPrefectClient, batch: list[Record]) -> None:
        text = text_of(batch)
        alone = len(batch) == 1 and len(text) > self._most_bytes
        for data in pieces_of(text, self._most_bytes) if alone else [text]:
            self._post(client, data)
        with self._disk:
            for record in batch:
                self._queue.popleft()
                if record.id in self._kept:
                    unsent_records.delete(record)
        if self._is_away and not self._queue:
            self._is_away = False
            self._tell("the Prefect API answers again: every record so far is sent")
        self._retry_s = self._settings.retry_s

    def _post(self, client: SyncPrefectClient, data: Any) -> None:
        client.create_artifact(ArtifactCreate(type=TYPE, data=data, flow_run_id=self._flow_run_id))

    def _keep(self) -> None:
        with self._disk:
            for record in self._snapshot():
                if record.id not in self._kept:
                    self._kept.add(record.id)
                    unsent_records.save(record)

    def _keep_slow(self) -> None:
        self._is_slow = True
        self._keep()

    def _tell(self, line: str) -> None:
        with suppress(Exception):  # a failing log stops no record
            self._say(line)

    def _try_again(self, error: Exception) -> bool:
        """Wait before the next try; return False if useless or too late."""
        if status_code(error) == TOO_LARGE and self._most_bytes > LEAST_BYTES:
            self._most_bytes = max(self._most_bytes // 2, LEAST_BYTES)
            return True
        self._keep()
        if not self._is_away:
            self._tell(f"the Prefect API does not take records, which wait on this box: {error}")
        self._is_away = True
        tried_as_the_last = self._closing and refused(error)
        if tried_as_the_last or time.monotonic() + self._retry_s > self._until:
            self._tell(f"{self.waiting} records are kept in {unsent_records.FOLDER}, not sent: {error}")
            return False
        with self._news:
            was_closing = self._closing
            self._news.wait_for(lambda: self._closing and not was_closing, self._retry_s)
        self._retry_s = min(self._retry_s * 2, self._settings.longest_retry_s)
        return True
