"""The desk of a run, where parcels are opened: a lane job may deliver the repeats of its own order only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from prefect.client.orchestration import PrefectClient

from tasks.delivery.inbox import Inbox, Parcel
from tasks.delivery.orders import Identity, identity, order_of
from tasks.delivery.parcels import records_in
from tasks.store.store import Store
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat

MOST_ASIDE = 20  # what is refused of one lane job and kept; the rest is only counted
ROUNDS = 100  # pages of parcels that one call takes: a lane that floods its desk must not stop the others


@dataclass(slots=True)
class Desk:
    """Stores what lane jobs deliver.

    Attributes:
        say: told of everything that is refused.
        arrived: called with each record that is in the store.
        orders: of every job that may deliver.
    """

    client: PrefectClient
    store: Store
    say: Callable[[str], None]
    arrived: Callable[[Record], None]
    orders: dict[UUID, frozenset[Identity]] = field(default_factory=dict)
    _inbox: Inbox = field(init=False)
    _refused: dict[UUID, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._inbox = Inbox(self.client)

    def expect(self, flow_run_id: UUID, repeats: Sequence[Repeat]) -> None:
        """Let a lane job deliver these repeats."""
        self.orders[flow_run_id] = frozenset(map(identity, repeats))

    async def take_over(self, flow_run_ids: Sequence[UUID]) -> dict[UUID, list[Repeat]]:
        """Read the orders of earlier lane jobs, collect what they have sent, and return the orders.

        Raises:
            GridbenchError: the store can't be written.
        """
        orders = {flow_run_id: await order_of(self.client, flow_run_id) for flow_run_id in flow_run_ids}
        for flow_run_id, repeats in orders.items():
            self.expect(flow_run_id, repeats)
        await self.collect()
        return orders

    async def collect(self) -> None:
        """Store what has come, and remove it from the API; what does not belong to its sender is kept aside.

        Raises:
            GridbenchError: the store can't be written.
        """
        for _ in range(ROUNDS if self.orders else 0):
            parcels = await self._inbox.new(self.orders)
            if not parcels:
                return
            for parcel in parcels:
                self._open(parcel)
                await self._inbox.stored(parcel)

    def _open(self, parcel: Parcel) -> None:
        records, odd = records_in(parcel.text)
        order = self.orders[parcel.flow_run_id]
        for line, reason in odd:
            self._refuse(parcel.flow_run_id, line, reason)
        for record in records:
            if identity(record) in order:
                self.store.add(record)
                self.arrived(record)
            else:
                reason = f"{record.run}/{record.id} is not among the repeats that it was asked for"
                self._refuse(parcel.flow_run_id, record.to_json(), reason)

    def _refuse(self, flow_run_id: UUID, text: str, reason: str) -> None:
        count = self._refused[flow_run_id] = self._refused.get(flow_run_id, 0) + 1
        if count <= MOST_ASIDE:
            path = self.store.keep_aside(f"{flow_run_id}-{count}", text)
            self.say(f"a record of lane job {flow_run_id} is refused: {reason}; it is kept in {path}")
        elif count == MOST_ASIDE + 1:
            self.say(
                f"lane job {flow_run_id} keeps sending records that were not requested; further ones are discarded"
            )
