"""Sends the waiting repeats to their lanes' work pools, follows the jobs, and stores each record as it comes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Self
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling

from tasks.aftermath import REPEATS, collect, is_final, lane_jobs, repeats_of, run_tag
from tasks.courier import LOST_TOUCH, Inbox
from tasks.errors import GridbenchError
from tasks.lanes import Job, Lane
from tasks.plan import Plan
from tasks.store import Store
from workloads.harness.case import Cell
from workloads.harness.record import Record, Verdict
from workloads.harness.runs import Repeat

POLL_S = 2.0
GATHER_S = 0.5  # a job takes along what is asked for within this time of the last cell
START_WITHIN_S = 900.0
Say = Callable[[str], None]


class LaneLost(Exception):
    """A lane job ended before it measured a cell; asking again is worth it."""


class Dispatcher:
    """Everything that is under way in one run. Enter it, then await `records_of` for every cell.

    Attributes:
        arrived: every record of the run that is in the store, by the repeat's id.
        on_progress: awaited after each look at the API, to show how far the run is.
    """

    def __init__(self, store: Store, budget_usd: float | None, say: Say, poll_s: float = POLL_S) -> None:
        self.store, self.say, self.poll_s = store, say, poll_s
        self.plan: Plan = store.plan
        self.budget_usd = budget_usd
        self.arrived: dict[str, Record] = {}
        self.lanes = {machine.name: Lane(machine) for machine in self.plan.hardware}
        self._repeats: dict[Cell, list[Repeat]] = {}
        for machine in self.plan.hardware:
            for repeat in self.plan.repeats_on(machine):
                self._repeats.setdefault(Cell(machine.name, repeat.case), []).append(repeat)
        self._cells: dict[Cell, asyncio.Future[None]] = {}
        self._jobs: dict[UUID, Lane] = {}
        self._known_jobs: set[UUID] = set()
        self.on_progress: Callable[[], Awaitable[None]] | None = None

    async def __aenter__(self) -> Self:
        self._client: PrefectClient = get_client()
        await self._client.__aenter__()
        self._inbox = Inbox(self._client)
        for sentence in self.store.records()[1]:
            self.say(f"{sentence}; it is measured again")
        await self._adopt()
        self._watch = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await stop_jobs(self._client, self._jobs)
        await self._client.__aexit__(None, None, None)

    async def records_of(self, cell: Cell) -> list[Record]:
        """Have a cell measured where it isn't yet, and wait for its records.

        Raises:
            LaneLost: its job ended first.
            GridbenchError: the results can't be written.
        """
        if missing := self._missing(cell):
            waiter = self._cells[cell] = asyncio.get_running_loop().create_future()
            self.lanes[cell.hardware].ask(missing, time.monotonic())
            await waiter
        return [self.arrived[repeat.id] for repeat in self._repeats[cell]]

    def _missing(self, cell: Cell) -> list[Repeat]:
        return [repeat for repeat in self._repeats[cell] if repeat.id not in self.arrived]

    async def _adopt(self) -> None:
        """Take over what an earlier, interrupted `bench` of this run has left: its records and its live jobs."""
        for sentence in await collect(self._client, self.store):
            self.say(f"{sentence}; it is measured again")
        self.arrived = {_id(record): record for record in self.store.records()[0]}
        for job in await lane_jobs(self._client, self.plan.run):
            repeats = repeats_of(job)
            lane = self.lanes.get(repeats[0].hardware)
            if lane and lane.job is None and not is_final(job.state):
                lane.job = Job(
                    job.id, {r.id: r for r in repeats if r.id not in self.arrived}, time.monotonic()
                )
                self._jobs[job.id] = lane
                self._known_jobs.add(job.id)

    async def _follow(self) -> None:
        """Dispatch and collect until cancelled; an API that is away for a while changes nothing."""
        while True:
            try:
                await self._dispatch()
                await self._collect()
                await self._watch_jobs()
                if self.on_progress:
                    await self.on_progress()
            except LOST_TOUCH as error:
                self.say(f"the Prefect API does not answer ({error}); trying again")
            except GridbenchError as error:
                self._fail(error)
                return
            await asyncio.sleep(self.poll_s if self._jobs else GATHER_S)

    async def _dispatch(self) -> None:
        """Start a job for each lane that has waiting repeats and whose box is free."""
        busy = {lane.box for lane in self.lanes.values() if lane.job and lane.job.missing}
        for lane in self.lanes.values():
            settled = time.monotonic() - lane.asked_at >= GATHER_S
            if lane.waiting and settled and lane.box not in busy:
                if self._over_budget():
                    return
                busy.add(lane.box)
                await self._submit(lane, lane.next_job())

    async def _submit(self, lane: Lane, repeats: list[Repeat]) -> None:
        name = f"lane/{lane.machine.pool}"
        parameters = {
            "repeats": REPEATS.dump_python(repeats, mode="json"),
            "command": list(lane.machine.command) if lane.machine.command else None,
        }
        try:
            job = await arun_deployment(
                name,
                client=self._client,
                parameters=parameters,
                timeout=0,
                flow_run_name=f"{lane.machine.name} · {len(repeats)} repeats",
                tags=["gridbench-lane", run_tag(self.plan.run)],
                job_variables=lane.machine.job_variables,
            )
        except ObjectNotFound:
            sentence = (
                f"deployment {name} is not on this Prefect server; run `prefect --no-prompt deploy --all`"
            )
            raise GridbenchError(sentence) from None
        lane.job = Job(job.id, {repeat.id: repeat for repeat in repeats}, time.monotonic())
        self._jobs[job.id] = lane
        self._known_jobs.add(job.id)
        self.say(f"lane {lane.machine.name}: {len(repeats)} repeats sent to work pool {lane.machine.pool}")

    async def _collect(self) -> None:
        """Store what has come, and wake the cells that are complete."""
        if not self._known_jobs:
            return
        records, odd = await self._inbox.new(self._known_jobs)
        for sentence in odd:
            self.say(sentence)
        for record in records:
            self._deliver(record)

    def _deliver(self, record: Record) -> None:
        lane = self.lanes.get(record.hardware)
        if lane is None or record.cell not in self._repeats or record.run != self.plan.run:
            self.say(f"a record of {record.run}/{record.cell.id} is not of this run and is left out")
            return
        self.store.add(record)
        self.arrived.setdefault(_id(record), record)
        lane.delivered(_id(record))
        if not self._missing(record.cell):
            self._wake(record.cell, None)

    async def _watch_jobs(self) -> None:
        """See which jobs have started, ended, or wait for a worker that never comes."""
        if not self._jobs:
            return
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=list(self._jobs)))
        for flow_run in await self._client.read_flow_runs(flow_run_filter=wanted):
            lane = self._jobs[flow_run.id]
            state = flow_run.state
            if lane.job is None or lane.job.flow_run_id != flow_run.id:
                if is_final(state):
                    del self._jobs[flow_run.id]
            elif is_final(state):
                await self._collect()  # what it sent last may have come after the last look
                self._job_ended(lane, flow_run)
            elif state and state.is_running():
                lane.job.started_at = time.monotonic() if lane.job.started_at is None else lane.job.started_at
            elif lane.job.started_at is None and time.monotonic() - lane.job.submitted_at > START_WITHIN_S:
                await stop_jobs(self._client, [flow_run.id])
                del self._jobs[flow_run.id]
                reason = (
                    f"no worker of pool {lane.machine.pool} started the lane within {START_WITHIN_S:.0f} s"
                )
                self._settle([], lane.give_up(Verdict.CAPACITY, reason), reason)

    def _job_ended(self, lane: Lane, flow_run: FlowRun) -> None:
        del self._jobs[flow_run.id]
        state = flow_run.state
        reason = (
            f"lane job {flow_run.name!r} ended {state.name}: {state.message}" if state else "it has no state"
        )
        lost, given_up = lane.job_ended(time.monotonic(), reason)
        if lost or given_up:
            self.say(f"{reason}; {len(lost)} repeats go back to the lane, {len(given_up)} are given up")
        self._settle(lost, given_up, reason)

    def _settle(self, lost: Iterable[Repeat], given_up: Iterable[Record], reason: str) -> None:
        for record in given_up:
            self._deliver(record)
        for repeat in lost:
            self._wake(Cell(repeat.hardware, repeat.case), LaneLost(reason))

    def _wake(self, cell: Cell, error: Exception | None) -> None:
        waiter = self._cells.pop(cell, None)
        if waiter is None or waiter.done():
            return
        if error:
            waiter.set_exception(error)
        else:
            waiter.set_result(None)

    def _fail(self, error: GridbenchError) -> None:
        for cell in list(self._cells):
            self._wake(cell, error)

    def _over_budget(self) -> bool:
        """Stop asking for more once the lanes have cost more than the budget; what is left is skipped, and says so."""
        if self.budget_usd is None or self.spent_usd() < self.budget_usd:
            return False
        reason = f"the budget of {self.budget_usd:g} USD is spent"
        for lane in self.lanes.values():
            if lane.job is None:
                self._settle([], lane.give_up(Verdict.SKIPPED, reason), reason)
        return True

    def spent_usd(self) -> float:
        """What the lanes' jobs have cost so far at the hardware's prices, running ones included."""
        now = time.monotonic()
        total = 0.0
        for lane in self.lanes.values():
            started_at = lane.job.started_at if lane.job else None
            running_s = 0.0 if started_at is None else now - started_at
            total += lane.machine.price.usd_per_hour * (lane.spent_s + running_s) / 3600
        return total


async def stop_jobs(client: PrefectClient, flow_run_ids: Iterable[UUID]) -> None:
    """Have the workers stop these flow runs, and take back those that none has started yet."""
    for flow_run_id in list(flow_run_ids):
        with suppress(ObjectNotFound, *LOST_TOUCH):
            state = (await client.read_flow_run(flow_run_id)).state
            if not is_final(state):
                under_way = state is not None and (state.is_running() or state.is_pending())
                change = Cancelling if under_way else Cancelled
                await client.set_flow_run_state(
                    flow_run_id, change(message="its bench run is over"), force=True
                )


def _id(record: Record) -> str:
    return f"{record.cell.id}#{record.repeat}"
