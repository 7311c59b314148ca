"""Receive records: each job delivers only its order."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from prefect.client.orchestration import PrefectClient

from tasks.delivery.artifact_encoding import records_in
from tasks.delivery.artifact_queue import ArtifactQueue, Upload
from tasks.delivery.job_orders import Identity, identity, read_order
from tasks.store.store import Store
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat

MOST_ASIDE = 20  # refused texts of a lane job that are kept; others are only counted
KEPT = 100_000  # characters of each
ROUNDS = 100  # pages of uploads per call: a flooding lane must not stop the others
MOST_BYTES, REPEAT_BYTES = 64 * 1024 * 1024, 1024 * 1024  # limit for one lane job, plus one for each repeat


@dataclass(slots=True)
class RecordReceiver:
    """A receiver, which stores the records of lane jobs.

    Attributes:
        say: gets every refusal.
        orders: of jobs that can deliver.
        flooding: jobs that sent more than their order can need; not read any more.
    """

    client: PrefectClient
    store: Store
    say: Callable[[str], None]
    arrived: Callable[[Record], None]
    orders: dict[UUID, frozenset[Identity]] = field(default_factory=dict)
    flooding: set[UUID] = field(default_factory=set)
    _queue: ArtifactQueue = field(init=False)
    _refused: dict[UUID, int] = field(default_factory=dict)
    _sent_bytes: dict[UUID, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queue = ArtifactQueue(self.client)

    def expect(self, flow_run_id: UUID, repeats: Sequence[Repeat]) -> None:
        self.orders[flow_run_id] = frozenset(map(identity, repeats))

    async def take_over(self, flow_run_ids: Sequence[UUID]) -> dict[UUID, list[Repeat]]:
        """Collect earlier jobs' records; return their orders.

        Raises:
            GridbenchError: the store can't be written.
        """
        orders = {flow_run_id: await read_order(self.client, flow_run_id) for flow_run_id in flow_run_ids}
        for flow_run_id, repeats in orders.items():
            self.expect(flow_run_id, repeats)
        await self.collect()
        return orders

    async def collect(self, within_s: float = float("inf")) -> None:
        """Store new records and remove them from the API; keep unordered ones aside.

        After `within_s`, leave the rest.

        Raises:
            GridbenchError: the store can't be written.
        """
        until = time.monotonic() + within_s
        for _ in range(ROUNDS if self.orders else 0):
            uploads = await self._queue.new(self.orders)
            for upload in uploads:
                await self._open(upload)
                await self._queue.stored(upload)
            if not uploads or time.monotonic() > until:
                return

    async def _open(self, upload: Upload) -> None:
        sender, order = upload.flow_run_id, self.orders[upload.flow_run_id]
        sent_bytes = self._sent_bytes[sender] = self._sent_bytes.get(sender, 0) + len(upload.text)
        if sent_bytes > MOST_BYTES + REPEAT_BYTES * len(order):
            self.flooding.add(sender)
            return
        records, odd = await asyncio.to_thread(records_in, upload.text, len(order))
        if odd:
            self._refuse(sender, *odd)
        for record in records:
            if identity(record) in order:
                self.store.add(record)
                self.arrived(record)
            else:
                reason = f"{record.run}/{record.id} is not among the repeats that it was asked for"
                self._refuse(sender, record.to_json(), reason)

    def _refuse(self, flow_run_id: UUID, text: str, reason: str) -> None:
        count = self._refused[flow_run_id] = self._refused.get(flow_run_id, 0) + 1
        if count <= MOST_ASIDE:
            path = self.store.keep_aside(f"{flow_run_id}-{count}", text[:KEPT])
            self.say(f"a record of lane job {flow_run_id} is refused: {reason}; it is kept in {path}")
        elif count == MOST_ASIDE + 1:
            self.say(
                f"lane job {flow_run_id} keeps sending records that were not requested; further ones are discarded"
            )
