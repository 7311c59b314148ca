"""Rent a box for one lane, and always return it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import anyio
import httpx
from prefect import State, get_client
from prefect.blocks.system import Secret
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Crashed, Failed
from pydantic import SecretStr

from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.boot import LOST
from infra.lambda_cloud.choose import Wish
from infra.lambda_cloud.errors import LambdaError, NoCapacity, NotFound
from infra.lambda_cloud.give_back import Rented, Say
from infra.lambda_cloud.janitor import sweep
from infra.lambda_cloud.lease import Lease, new_lease
from infra.lambda_cloud.leftover import delete_block, return_earlier
from infra.lambda_cloud.rent import Launch, RentedBox, rented
from infra.lambda_cloud.settings import HoldSettings, unbroken
from infra.lambda_cloud.shared_rate import shared_rate
from infra.workers.base.retry import call_until_answered
from tasks.dispatch.flow_runs import myself_and_bench
from tasks.dispatch.rental_labels import PREFIX, RELEASE, RentalStatus
from tasks.dispatch.rental_order import RentalOrder
from tasks.dispatch.rented_boxes import RECLAIMED, rental_runs

NAME = f"{PREFIX}name"
NO_CAPACITY, REFUSED, DUE, NOT_RETURNED = "NoCapacity", "Refused", "Due", "NotReturned"  # names of states


async def hold(order: RentalOrder, flow_run_id: UUID, say: Say) -> State[Any]:
    """Rent a box, hold it while it is needed, and give it back; return how the rental ended.

    The flow run's labels hold its `RentalStatus`.
    """
    pace = HoldSettings()
    try:
        async with LambdaApi(api_key(), api_url(), pace.api, shared_rate) as api, get_client() as client:
            swept = await sweep(api, _now(), say)
            for problem in swept.problems:
                say(problem)
            lease = new_lease(order.run, order.hardware, _now() + timedelta(seconds=order.due_s))

            async def in_use() -> set[str]:
                return await _held_by_others(client, order.run, flow_run_id)

            await return_earlier(api, client, order.run, order.hardware, in_use, say)
            holding = Holding(order, flow_run_id, api, client, lease, say, pace)
            await call_until_answered(client.update_flow_run_labels, flow_run_id, holding.rental.labels)
            try:
                state = await _first(holding.follow, holding.rent)
            finally:
                await unbroken(holding.close())
            left = holding.rented.left
            return Failed(name=NOT_RETURNED, message="; ".join(left)) if left else state
    except LambdaError as error:
        return _refused(error)


@dataclass(slots=True)
class Holding:
    """One box for one lane, from the search for it to its return.

    Attributes:
        lease: its name is on the box, the key and the secret, so that they are found after a crash.
        rental: the next content of the labels.
        rented: the launched boxes, and those that could not be returned.
        news: set if `rental` is newer than the labels.
    """

    order: RentalOrder
    flow_run_id: UUID
    api: LambdaApi
    client: PrefectClient
    lease: Lease
    say: Say
    pace: HoldSettings
    rental: RentalStatus = field(init=False)
    rented: Rented = field(default_factory=Rented)
    news: anyio.Event = field(default_factory=anyio.Event)
    returned: datetime | None = None

    def __post_init__(self) -> None:
        self.rental = RentalStatus(name=self.lease.name)

    def know(self, **changes: Any) -> None:
        self.rental = self.rental.model_copy(update=changes)
        self.news.set()

    def note(self, launch: Launch) -> None:
        """Note a launch, or the return of a box that did not boot, which ends its cost."""
        self.returned = launch.returned
        if launch.returned is None:
            option, since = launch.option, launch.since
            self.know(
                instance=launch.instance,
                type=option.instance_type,
                region=option.region,
                usd_per_hour=option.usd_per_hour,
                since=since,
            )
            return
        now, before = launch.returned, self.rental
        earlier = {
            "earlier_s": before.earlier_s + before.billed_s(now),
            "earlier_usd": before.cost_usd(now),
        }
        self.know(**earlier, since=now, usd_per_hour=0.0)

    async def follow(self) -> State[Any]:
        """Update the labels until they ask for release, or no `bench` has measured for `alone_s`."""
        alone_since: float | None = None
        bench: UUID | None = None
        while True:
            self.news = anyio.Event()
            try:
                me, bench = await myself_and_bench(self.client, self.flow_run_id, self.order.run, bench)
                if me is None:
                    return Completed(message="this flow run was deleted: given back")
                if me.labels.get(RELEASE):
                    return Completed(message="given back")
                alone_since = None if bench else alone_since or anyio.current_time()
                await self._label(me.labels)
            except (httpx.HTTPError, ObjectNotFound):
                alone_since = None  # an unreachable Prefect API does not end the rental
            if alone_since is not None and anyio.current_time() - alone_since >= self.pace.alone_s:
                return Completed(message=f"run {self.order.run} is no longer measured: returned")
            with anyio.move_on_after(self.order.poll_s or self.pace.poll_s):
                await self.news.wait()

    async def _label(self, present: Mapping[str, Any]) -> None:
        """Write the labels that differ; the server can lose one if another client writes at the same time."""
        labels = self.rental.labels
        if any(present.get(key) != value for key, value in labels.items()):
            await self.client.update_flow_run_labels(self.flow_run_id, labels)

    async def rent(self) -> State[Any]:
        order = self.order
        try:
            wish = Wish(
                instance_types=order.instances,
                regions=order.regions,
                until=_now() + timedelta(seconds=order.capacity_s),
                boot_within_s=order.boot_s,
                most_usd_per_hour=order.most_usd_per_hour,
            )
            async with rented(self.api, wish, self.lease, self.say, note=self.note, held=self.rented) as box:
                return await self._have(box)
        except NoCapacity as error:
            return Failed(name=NO_CAPACITY, message=str(error))
        except LambdaError as error:
            return _refused(error)

    async def _have(self, box: RentedBox) -> State[Any]:
        since = self.rental.since or _now()
        until = since + timedelta(seconds=self.order.most_s)
        with anyio.move_on_after(max((until - _now()).total_seconds(), 0)):
            secret: Secret[Any] = Secret(value=SecretStr(box.private_key))
            await call_until_answered(secret.asave, self.lease.name, overwrite=True, client=self.client)
            at = {"address": box.ip, "user": box.user, "host_key": " ".join(box.host_key.split()[:2])}
            self.know(**at, answered=_now(), until=until)
            self.say(f"{self.rental.type} in {self.rental.region} accepts our login at {box.user}@{box.ip}")
            return await self._lost(box.instance.id)
        return Failed(
            name=DUE,
            message=f"the box was held for {self.order.most_s:.0f} s, as long as requested: given back",
        )

    async def _lost(self, instance_id: str) -> State[Any]:
        while True:
            await anyio.sleep(self.pace.look_s)
            try:
                status = (await self.api.instance(instance_id)).status
            except NotFound:
                status = "gone"
            except LambdaError:
                continue  # the state of the box is unknown
            if status in {"gone", *LOST}:
                what = f"{self.rental.type} in {self.rental.region} ({instance_id})"
                return Crashed(name=RECLAIMED, message=f"Lambda Cloud took the box away: {what} is {status}")

    async def close(self) -> None:
        """Publish the return, unless a box might still run, and delete the key."""
        if not self.rented.left:
            self.know(returned=self.returned or _now())
        await call_until_answered(self.client.update_flow_run_labels, self.flow_run_id, self.rental.labels)
        await call_until_answered(delete_block, self.client, self.lease.name)


async def _held_by_others(client: PrefectClient, run: str, holder: UUID) -> set[str]:
    flow_runs = await call_until_answered(rental_runs, client, run)
    running = [each for each in flow_runs if each.id != holder and each.state and each.state.is_running()]
    return {str(each.labels[NAME]) for each in running if NAME in each.labels}


async def _first(*watches: Callable[[], Awaitable[State[Any]]]) -> State[Any]:
    ended: list[State[Any]] = []
    async with anyio.create_task_group() as group:

        async def run(watch: Callable[[], Awaitable[State[Any]]]) -> None:
            ended.append(await watch())
            group.cancel_scope.cancel()

        for watch in watches:
            group.start_soon(run, watch)
    return ended[0]


def _refused(error: LambdaError) -> State[Any]:
    return Failed(name=REFUSED, message=str(error))


def _now() -> datetime:
    return datetime.now(UTC)
