"""Sends waiting repeats to their lanes' work pools, follows the jobs, stores each record as it comes."""

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

from tasks.aftermath import REPEATS, collect, flow_runs, is_final, lane_jobs, repeats_of, run_tag
from tasks.courier import LOST_TOUCH, Inbox, refused, words_of
from tasks.errors import GridbenchError
from tasks.lanes import Lane
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
        self._cost_usd: dict[UUID, float] = {}
        self._error: Exception | None = None
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

    async def __aexit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await stop_jobs(self._client, [job for job in self._jobs if kind or not self._is_done(job)])
        await self._client.__aexit__(None, None, None)
        if self._error and kind is None:
            raise self._error

    def _is_done(self, flow_run_id: UUID) -> bool:
        """Whether a job has delivered everything: it is about to end by itself."""
        job = self._jobs[flow_run_id].job
        return job is not None and job.flow_run_id == flow_run_id and not job.missing

    async def records_of(self, cell: Cell) -> list[Record]:
        """Have a cell measured where it isn't yet, and wait for its records.

        Raises:
            LaneLost: its job ended first.
            GridbenchError: the results can't be written, or the API refuses what is asked of it.
        """
        if self._error:
            raise self._error
        if missing := self._missing(cell):
            waiter = self._cells[cell] = asyncio.get_running_loop().create_future()
            self.lanes[cell.hardware].ask(missing, time.monotonic())
            await waiter
        return [self.arrived[repeat.id] for repeat in self._repeats[cell]]

    def _missing(self, cell: Cell) -> list[Repeat]:
        return [repeat for repeat in self._repeats[cell] if repeat.id not in self.arrived]

    async def _adopt(self) -> None:
        """Take over what an earlier `bench` of this run has left: its records and its live jobs."""
        for record in self.store.records()[0]:
            if record.verdict is Verdict.CAPACITY:  # there was no machine or no money: perhaps there is now
                self.store.set_aside(record)
        jobs = await lane_jobs(self._client, self.plan.run)  # before their records, which may come meanwhile
        for sentence in await collect(self._client, self.store, jobs):
            self.say(f"{sentence}; it is measured again")
        self.arrived = {record.id: record for record in self.store.records()[0]}
        for job in jobs:
            missing = [repeat for repeat in repeats_of(job) if repeat.id not in self.arrived]
            lane = self.lanes.get(missing[0].hardware) if missing else None
            if lane and lane.job is None and not is_final(job.state):
                self._start(lane, job.id, missing)

    async def _follow(self) -> None:
        """Collect and dispatch until cancelled; an API that is away for a while changes nothing."""
        while True:
            try:
                await self._collect()
                await self._watch_jobs()
                await self._mind_budget()
                await self._dispatch()
                if self.on_progress:
                    await self.on_progress()
            except LOST_TOUCH as error:
                if refused(error):
                    return self._fail(GridbenchError(f"the Prefect API refuses: {words_of(error)}"))
                self.say(f"the Prefect API does not answer ({error}); trying again")
            except Exception as error:  # whatever it is: nobody may wait for a watcher that is gone
                return self._fail(error)
            await asyncio.sleep(self.poll_s if self._jobs else GATHER_S)

    async def _dispatch(self) -> None:
        """Start a job for each lane that has waiting repeats and whose box is free."""
        busy = {lane.box for lane in self.lanes.values() if lane.job and lane.job.missing}
        for lane in self.lanes.values():
            settled = time.monotonic() - lane.asked_at >= GATHER_S
            if lane.waiting and settled and lane.box not in busy:
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
                idempotency_key=lane.ticket,  # an answer that was lost has made its job all the same
            )
        except ObjectNotFound:
            sentence = (
                f"deployment {name} is not on this Prefect server; run `prefect --no-prompt deploy --all`"
            )
            raise GridbenchError(sentence) from None
        self._start(lane, job.id, repeats_of(job))
        self.say(f"lane {lane.machine.name}: {len(repeats)} repeats sent to work pool {lane.machine.pool}")

    def _start(self, lane: Lane, flow_run_id: UUID, repeats: list[Repeat]) -> None:
        lane.start(flow_run_id, repeats, time.monotonic())
        self._jobs[flow_run_id] = lane
        self._known_jobs.add(flow_run_id)

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
        self.arrived.setdefault(record.id, record)
        lane.delivered(record.id)
        if not self._missing(record.cell):
            self._wake(record.cell, None)

    async def _watch_jobs(self) -> None:
        """See which jobs have ended, what they cost, and which wait for a worker that never comes."""
        if not self._jobs:
            return
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=list(self._jobs)))
        found = {run.id: run for run in await flow_runs(self._client, wanted)}
        for flow_run_id, lane in list(self._jobs.items()):
            run = found.get(flow_run_id)
            if run:
                price_usd = lane.machine.price.usd_per_hour
                self._cost_usd[run.id] = price_usd * run.estimated_run_time.total_seconds() / 3600
            if run is None or is_final(run.state):
                await self._collect()  # what it sent last may have come after the last look
                self._job_ended(lane, flow_run_id, run)
            elif run.start_time is None:
                await self._mind_start(lane, flow_run_id)

    def _job_ended(self, lane: Lane, flow_run_id: UUID, run: FlowRun | None) -> None:
        del self._jobs[flow_run_id]
        if lane.job is None or lane.job.flow_run_id != flow_run_id:
            return  # it had delivered everything, or was given up
        reason = "its lane job was deleted"
        if run and run.state:
            reason = f"lane job {run.name!r} ended {run.state.name}: {run.state.message}"
        lost, given_up = lane.job_ended(run is None or run.start_time is not None, reason)
        if lost or given_up:
            self.say(f"{reason}; {len(lost)} repeats go back to the lane, {len(given_up)} are given up")
        self._settle(lost, given_up, reason)

    async def _mind_start(self, lane: Lane, flow_run_id: UUID) -> None:
        """Give a lane up when no worker takes its job."""
        if lane.job is None or lane.job.flow_run_id != flow_run_id:
            return
        if time.monotonic() - lane.job.submitted_at > START_WITHIN_S:
            await stop_jobs(self._client, [flow_run_id])
            pool = lane.machine.pool
            self._give_up(lane, f"no worker of pool {pool} started the lane within {START_WITHIN_S:.0f} s")

    async def _mind_budget(self) -> None:
        """Stop everything once the lanes have cost more than the budget; what is left says so."""
        if self.budget_usd is None or self.spent_usd() <= self.budget_usd:
            return
        await stop_jobs(self._client, self._jobs)
        for lane in self.lanes.values():
            self._give_up(lane, f"the budget of {self.budget_usd:g} USD is spent")

    def _give_up(self, lane: Lane, reason: str) -> None:
        if given_up := lane.give_up(reason):
            self.say(f"lane {lane.machine.name}: {reason}; {len(given_up)} repeats are given up")
            self._settle([], given_up, reason)

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

    def _fail(self, error: Exception) -> None:
        """Nothing more can be measured: whoever waits, or asks from now on, gets the reason."""
        self._error = error
        for cell in list(self._cells):
            self._wake(cell, error)

    def spent_usd(self) -> float:
        """What the lanes' jobs have cost so far at the hardware's prices, running ones included."""
        return sum(self._cost_usd.values())


async def stop_jobs(client: PrefectClient, flow_run_ids: Iterable[UUID]) -> None:
    """Have the workers stop these flow runs, and take back those that none has started yet."""
    for flow_run_id in list(flow_run_ids):
        with suppress(*LOST_TOUCH):
            state = (await client.read_flow_run(flow_run_id)).state
            if state and not state.is_final() and not state.is_cancelling():
                change = Cancelling if state.is_running() or state.is_pending() else Cancelled
                await client.set_flow_run_state(
                    flow_run_id, change(message="its bench run is over"), force=True
                )
