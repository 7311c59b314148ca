"""Boxes that lanes rent, and give back when idle."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from pydantic import ValidationError

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.dispatch.flow_runs import flow_runs, has_begun, is_final, run_tag, stop_jobs
from tasks.dispatch.job_end import JobEnd
from tasks.dispatch.lane import Lane, overdue
from tasks.dispatch.rental_labels import RELEASE, TAG, RentalStatus
from tasks.dispatch.rental_order import buys_a_box, order_for
from tasks.dispatch.submit import submit
from tasks.planning.hardware import Hardware
from tasks.planning.limits import RENTAL_POOL
from tasks.planning.plan import Plan

DEPLOYMENTS = {"lambda": "rental/lambda"}
IDLE_S = 20.0  # an idle box goes back after this time; the next round of cells comes sooner
JOBS_S = 30.0  # max wait at the end for a worker to stop a container, or to notice its end
RETURN_S = 180.0  # max wait at the end for the return of boxes to be confirmed
LOOK_S = 2.0
RELEASE_TRIES = 5
WAIT_S = 300  # max wait for a rented box to answer its worker; it has answered its renter before
SPARE = timedelta(seconds=60)  # a job ends before its box is given back
RECLAIMED = "Reclaimed"  # the state of a rental whose box was taken away
AGAIN = (RECLAIMED, "Crashed")  # ends of a rental that is not to blame: another box can work
# How a lane job ends that blames its box: the next one gets another box.
BAD_BOX = (JobEnd.UNREACHABLE, JobEnd.NO_MACHINE)


def status_of(run: FlowRun) -> RentalStatus:
    """Return empty if unreadable."""
    try:
        return RentalStatus.of(run.labels)
    except ValidationError:
        return RentalStatus()


async def rental_runs(client: PrefectClient, run: str) -> list[FlowRun]:
    """Return them oldest first."""
    return await flow_runs(client, FlowRunFilter(tags=FlowRunFilterTags(all_=[TAG, run_tag(run)])))


async def release(client: PrefectClient, runs: Sequence[FlowRun], after: Sequence[UUID] = ()) -> None:
    """Have boxes given back, after lane jobs have ended.

    Those that have not begun are cancelled. Workers get JOBS_S to see containers end. An unreachable one
    notices by itself that its `bench` is over.
    """
    if runs:
        with anyio.move_on_after(JOBS_S), suppress(*LOST_TOUCH):
            while any([not is_final((await client.read_flow_run(job)).state) for job in after]):
                await anyio.sleep(LOOK_S)
    for run in runs:
        if not is_final(run.state):
            with suppress(*LOST_TOUCH):
                await _request_release(client, run.id)


async def _request_release(client: PrefectClient, flow_run_id: UUID) -> None:
    """Set the label until it is there: a concurrent update can overwrite it.

    A run that has not begun is cancelled: it might never see its label.
    """
    for _ in range(RELEASE_TRIES):
        await client.update_flow_run_labels(flow_run_id, {RELEASE: True})
        run = await client.read_flow_run(flow_run_id)
        if not has_begun(run):
            return await stop_jobs(client, [flow_run_id])
        if run.labels.get(RELEASE):
            return
        await anyio.sleep(LOOK_S)


@dataclass(slots=True)
class LaneBox:
    """A lane's newest rental; seconds on the monotonic clock.

    Attributes:
        ordered_at: or taken over.
        idle_since: when the lane ran out of work.
        announced: the log reports that it answers.
        ended_at: of its session.
    """

    run: FlowRun
    ordered_at: float = field(default_factory=time.monotonic)
    idle_since: float | None = None
    announced: bool = False
    ended_at: float | None = None

    @property
    def rental(self) -> RentalStatus:
        return status_of(self.run)

    @property
    def session(self) -> int:
        return int(self.run.parameters["asked"].get("session") or 1)

    @property
    def overdue(self) -> str:
        """Return why a rental that has not begun is given up; else empty."""
        if has_begun(self.run):
            return ""
        taken = self.run.state is not None and self.run.state.is_pending()
        return overdue(RENTAL_POOL, taken, time.monotonic() - self.ordered_at)


@dataclass(slots=True)
class RentedBoxes:
    """Every rental of a run.

    Attributes:
        ended: called with lane, reason, and end: TAKEN_AWAY, CRASHED if it never began, or NO_MACHINE.
        rental_s: between polls of a rental; None for its own.
    """

    client: PrefectClient
    plan: Plan
    say: Callable[[str], None]
    ended: Callable[[Lane, str, JobEnd], Awaitable[None]]
    rental_s: float | None = None
    _held: dict[str, LaneBox] = field(default_factory=dict)
    _leaving: dict[str, LaneBox] = field(default_factory=dict)  # boxes of earlier sessions, given back
    _runs: list[FlowRun] = field(default_factory=list)
    _paid_before: set[UUID] = field(default_factory=set)  # within the budget of an earlier `bench`
    _ticket: str = field(default_factory=lambda: str(uuid4()))

    async def adopt(self) -> None:
        """Take over boxes of this run's earlier `bench`."""
        if any(machine.rent for machine in self.plan.hardware):
            self._runs = await rental_runs(self.client, self.plan.run)
            self._paid_before = {run.id for run in self._runs if is_final(run.state)}
            for run in self._runs:
                if not is_final(run.state) and not run.labels.get(RELEASE):
                    self._held[hardware_of(run)] = LaneBox(run)

    def cost_usd(self) -> float:
        """Return the cost, with boxes that did not boot."""
        now = datetime.now(UTC)
        return sum(status_of(run).cost_usd(now) for run in self._runs if run.id not in self._paid_before)

    async def mind(self, lanes: Sequence[Lane]) -> None:
        """Poll rentals; report ended ones, give back idle ones."""
        if not self._held and all(is_final(run.state) for run in self._runs):
            return
        self._runs = await rental_runs(self.client, self.plan.run)
        newest = {run.id: run for run in self._runs}
        for lane in lanes:
            held = self._held.get(lane.machine.name)
            if held is None:
                continue
            held.run = newest.get(held.run.id, held.run)
            if is_final(held.run.state):
                del self._held[lane.machine.name]
                await self._report_end(lane, held.run)
            elif why := held.overdue:
                await self.give_back(lane.machine.name)
                await self.ended(lane, why, JobEnd.NO_MACHINE)
            else:
                self._report_boot(held)
                await self._mind_idle(lane, held)

    def job_variables(self, machine: Hardware) -> dict[str, Any] | None:
        """Return None without a box."""
        held = self._held.get(machine.name)
        rental = held.rental if held else None
        if rental is None or not rental.answers:
            return None
        variables: dict[str, Any] = {"hosts": [rental.host], "wait_s": WAIT_S}
        if rental.until:
            left_s = (rental.until - SPARE - datetime.now(UTC)).total_seconds()
            timeout_s = machine.job_variables.get("timeout_s", left_s)
            variables["timeout_s"] = int(max(SPARE.total_seconds(), min(timeout_s, left_s)))
        return variables

    async def end_session(self, lane: Lane, is_in_use: bool) -> bool:
        """Give the box back if the next session gets another.

        Return whether the next can be ordered: the earlier one is gone, or was waited for. While it
        `is_in_use`, a worker has `JOBS_S` to see the last container end.
        """
        name, now = lane.machine.name, time.monotonic()
        held = self._held.get(name)
        if held and held.session != lane.session:
            held.ended_at = held.ended_at or now
            if is_in_use and now - held.ended_at < JOBS_S:
                return False
            self.say(f"lane {name}: session {held.session} has ended, its box is given back")
            self._leaving[name] = held
            await self.give_back(name)
        leaving = self._leaving.get(name)
        if leaving is None or leaving.ended_at is None:
            return True
        is_gone = any(run.id == leaving.run.id and is_final(run.state) for run in self._runs)
        return is_gone or now - leaving.ended_at >= RETURN_S

    async def order(self, machine: Hardware, left_usd: float | None, session: int = 1) -> bool:
        """Order a box, unless one is on its way.

        Return False if the money buys none.

        Raises:
            GridbenchError: the server has no deployment for it.
        """
        if machine.rent is None or machine.name in self._held:
            return True
        if session > 1 and not buys_a_box(machine, machine.rent, left_usd):
            return False
        order = order_for(machine, machine.rent, self.plan.run, left_usd)
        order = order.model_copy(update={"poll_s": self.rental_s, "session": session})
        run = await submit(
            self.client,
            DEPLOYMENTS[machine.rent.provider],
            {"asked": order.model_dump(mode="json")},
            run=self.plan.run,
            tag=TAG,
            title=f"{machine.name} · rental",
            key=f"{self._ticket}-{machine.name}-{len(self._runs)}",
        )
        self._runs.append(run)
        self._held[machine.name] = LaneBox(run)
        self.say(f"lane {machine.name}: {' or '.join(order.instances)} is rented, for {order.worst_case}")
        return True

    async def give_back(self, name: str) -> None:
        """Give the box back; the next `order` rents another."""
        if held := self._held.pop(name, None):
            await release(self.client, [held.run])

    async def close(self, jobs: Sequence[UUID]) -> None:
        """Give all boxes back after these jobs; name unconfirmed returns."""
        if not self._runs:
            return
        await release(self.client, self._runs, after=jobs)
        with anyio.move_on_after(RETURN_S):
            while left := [run for run in self._runs if not is_final(run.state)]:
                await anyio.sleep(LOOK_S)
                with suppress(*LOST_TOUCH):
                    self._runs = await rental_runs(self.client, self.plan.run)
            return
        for run in left:
            name = status_of(run).name or run.name
            self.say(f"{name} was not seen to give its box back: see `gridbench lambda rented`")

    def _report_boot(self, held: LaneBox) -> None:
        rental = held.rental
        if rental.answers and not held.announced:
            held.announced = True
            self.say(
                f"lane {hardware_of(held.run)}: {rental.type} in {rental.region} answers; "
                f"{rental.usd_per_hour or 0:.2f} USD an hour, due {rental.until:%Y-%m-%d %H:%M} UTC"
            )

    async def _mind_idle(self, lane: Lane, held: LaneBox) -> None:
        busy = lane.waiting or (lane.job and lane.job.missing)
        held.idle_since = None if busy else held.idle_since or time.monotonic()
        if held.idle_since and time.monotonic() - held.idle_since > IDLE_S:
            self.say(f"lane {lane.machine.name}: nothing is left to measure, its box is given back")
            await self.give_back(lane.machine.name)

    async def _report_end(self, lane: Lane, run: FlowRun) -> None:
        state = run.state
        name = (state.name if state else None) or "unknown"
        words = f"its rental ended {name}: {(state.message if state else None) or 'no reason given'}"
        again = JobEnd.TAKEN_AWAY if has_begun(run) else JobEnd.CRASHED
        await self.ended(lane, words, again if name in AGAIN else JobEnd.NO_MACHINE)


def hardware_of(run: FlowRun) -> str:
    return str(run.parameters["asked"]["hardware"])
