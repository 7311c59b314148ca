"""Send repeats to work pools, follow jobs, store records."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun

from tasks.delivery.api_trouble import LOST_TOUCH, refused, words_of
from tasks.delivery.events import budget_spent, lane_lost
from tasks.delivery.job_orders import delete_orders
from tasks.delivery.pace import Pace, pace_here
from tasks.delivery.record_receiver import RecordReceiver
from tasks.dispatch.flow_runs import flow_runs, has_begun, is_final, lane_jobs, stop_jobs
from tasks.dispatch.job_clock import JobClock
from tasks.dispatch.job_end import (
    JobEnd,
    end_is_due,
    end_of,
    had_machine,
    has_ended,
    reason_of,
    stated_s,
)
from tasks.dispatch.job_notes import note_jobs
from tasks.dispatch.lane import Lane, job_usd, lanes_of, within_budget
from tasks.dispatch.rented_boxes import BAD_BOX, RentedBoxes
from tasks.dispatch.submit import submit_lane
from tasks.errors import GridbenchError
from tasks.planning.plan import PlannedCase
from tasks.results.turns import Span
from tasks.store.store import Store
from tasks.travel.sending import forget_code
from workloads.harness.records.case import Cell
from workloads.harness.records.record import WORTH_RETRY, Record
from workloads.harness.records.repeat import Repeat

COLLECT_S = 5.0  # time limit of each round for records: the budget and the other lanes wait meanwhile
ENDS_S = 20.0  # max wait at the end for workers to state when their platform ended its jobs
ENDS_LOOK_S = 0.5
GATHER_S = 0.1  # one job measures all cells requested within this time of each other
FLOODS = "has sent more bytes than its order can need: no more of them are read"
Say = Callable[[str], None]


class Dispatcher:
    """A run's lanes, jobs and rented boxes: enter it, then await `records_of`.

    `arrived`: records by repeat id; `on_progress`: awaited after each poll.
    """

    def __init__(self, store: Store, budget_usd: float | None, say: Say, pace: Pace | None = None) -> None:
        self.store, self.say, self.pace = store, say, pace or pace_here()
        self.plan, self.budget_usd = store.plan, budget_usd
        self.arrived: dict[str, Record] = {}
        self.lanes = lanes_of(self.plan.hardware)
        self._lane_of = {machine.name: lane for lane in self.lanes for machine in lane.entries}
        self._repeats: dict[Cell, list[Repeat]] = {}
        self._requested: set[Cell] = set()
        for machine in self.plan.hardware:
            self._add(self.plan.repeats_on(machine))
        self._cells: dict[Cell, asyncio.Future[None]] = {}
        self._jobs: dict[UUID, Lane] = {}
        self._cost_usd: dict[UUID, float] = {}
        self._clock = JobClock()
        self._error: Exception | None = None
        self._is_away, self._asked = False, asyncio.Event()
        self.on_progress: Callable[[], Awaitable[None]] | None = None

    def _add(self, repeats: Iterable[Repeat]) -> None:
        for repeat in repeats:
            self._repeats.setdefault(repeat.cell, []).append(repeat)

    def extend(self, hardware: str, cases: Sequence[PlannedCase]) -> None:
        """Add cases that the plan lacks."""
        added = [planned for planned in cases if Cell(hardware, planned.case) not in self._repeats]
        after = sum(len(repeats) for cell, repeats in self._repeats.items() if cell.hardware == hardware)
        if added:
            machine = next(each for each in self.plan.hardware if each.name == hardware)
            self._add(self.plan.repeats_on(machine, added, after))

    @property
    def total(self) -> int:
        """Return the number of repeats so far."""
        cells = (
            self._requested | {r.cell for r in self.arrived.values()}
            if self.plan.shortlist
            else self._repeats
        )
        return sum(len(self._repeats.get(cell, ())) for cell in cells)

    @property
    def failed(self) -> bool:
        """Return whether nothing more can be measured."""
        return self._error is not None

    async def __aenter__(self) -> Self:
        self._client: PrefectClient = get_client()
        await self._client.__aenter__()
        self._receiver = RecordReceiver(self._client, self.store, self.say, self._accept)
        self._boxes = RentedBoxes(self._client, self.plan, self.say, self._rental_ended, self.pace.rental_s)
        for sentence in self.store.records()[1]:
            self.say(f"{sentence}; it is measured again")
        await self._adopt()
        self._watch = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        left = [job for job, lane in self._jobs.items() if kind or not lane.is_done(job)]
        await stop_jobs(self._client, left)
        await self._boxes.close(list(self._jobs))
        await self._see_ends()
        await note_jobs(self._client, self.store)
        await forget_code(self._client, self.store, self._receiver.orders, self.say)
        if kind is None and self._error is None:
            await delete_orders(self._client, [job for job, order in self._receiver.orders.items() if order])
        await self._client.__aexit__(None, None, None)
        if self._error and kind is None:
            raise self._error

    async def _see_ends(self) -> None:
        """Wait for workers to state ends of jobs that cost: bills need them."""
        if not any(lane.machine.price.usd_per_hour for lane in self.lanes):
            return
        with anyio.move_on_after(ENDS_S), suppress(*LOST_TOUCH):
            while any(map(end_is_due, await lane_jobs(self._client, self.plan.run))):
                await anyio.sleep(ENDS_LOOK_S)

    async def records_of(self, cell: Cell) -> list[Record]:
        """Wait for a cell's records; have missing ones measured.

        Raises:
            GridbenchError: the results can't be written, or the API refuses a request.
        """
        if self._error:
            raise self._error
        self.request([cell])
        if self._missing(cell):
            waiter = self._cells[cell] = asyncio.get_running_loop().create_future()
            await waiter
        return [self.arrived[repeat.id] for repeat in self._repeats[cell]]

    def request(self, cells: Iterable[Cell]) -> None:
        """Have cells measured, without waiting for them."""
        for cell in cells:
            self._requested.add(cell)
            if self._lane_of[cell.hardware].ask(self._missing(cell), time.monotonic()):
                self._asked.set()

    @property
    def idle(self) -> bool:
        return self.failed or not any(lane.busy for lane in self.lanes)

    def last_order(self, cell: Cell) -> int:
        """Return the place of a cell's last repeat in its lane."""
        return max(repeat.order for repeat in self._repeats[cell])

    def _missing(self, cell: Cell) -> list[Repeat]:
        return [repeat for repeat in self._repeats[cell] if repeat.id not in self.arrived]

    async def _adopt(self) -> None:
        for record in self.plan.skipped():
            self.store.add(record)
        for record in self.store.records()[0]:
            if record.verdict in WORTH_RETRY:
                self.store.set_aside(record)
        jobs = await lane_jobs(self._client, self.plan.run)  # before their records, which can come meanwhile
        orders = await self._receiver.take_over([job.id for job in jobs])
        self.arrived = {record.id: record for record in self.store.records()[0]}
        await self._boxes.adopt()
        for job in jobs:
            missing = [repeat for repeat in orders[job.id] if repeat.id not in self.arrived]
            lane = self._lane_of.get(missing[0].hardware) if missing else None
            if lane and lane.job is None and not is_final(job.state):
                self._start(lane, job.id, missing)
            elif missing and is_final(job.state) and has_begun(job):
                self.say(f"{missing[0].id} was being measured when its lane job ended: it is measured again")

    async def _follow(self) -> None:
        while True:
            try:
                await self._receiver.collect(COLLECT_S)
                await self._watch_jobs()
                await self._boxes.mind(self.lanes)
                await self._mind_budget()
                await self._dispatch()
                if self.on_progress:
                    await self.on_progress()
                self._is_away = False
            except LOST_TOUCH as error:
                if refused(error):
                    return self._fail(GridbenchError(f"the Prefect API refuses: {words_of(error)}"))
                if not self._is_away:
                    self.say(f"the Prefect API does not answer, trying again until it does: {error}")
                self._is_away = True
            except Exception as error:  # any kind: no cell can wait for a watcher that has died
                return self._fail(error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self.pace.poll_s)
                self._asked.clear()
                await asyncio.sleep(GATHER_S)

    async def _dispatch(self) -> None:
        busy = {lane.box for lane in self.lanes if lane.measuring}
        for lane in sorted(self.lanes, key=lambda lane: lane.session):
            settled = time.monotonic() - lane.asked_at >= GATHER_S
            if not (lane.waiting and settled and lane.box not in busy):
                continue
            if not self._is_due(lane):
                continue
            busy.add(lane.box)
            if lane.machine.rent and not await self._boxes.end_session(lane, lane in self._jobs.values()):
                continue
            variables = self._boxes.job_variables(lane.machine) if lane.machine.rent else {}
            if variables is None:
                await self._order(lane)
            else:
                await self._submit(lane, lane.next_job(), variables)

    def _is_due(self, lane: Lane) -> bool:
        """Return whether the lane's next session can begin: on another box, or late enough.

        A machine's fast clock delays it by the gap at most.
        """
        session, gap_s, now_s = lane.session, self.plan.session_gap_s, time.time()
        if session == 1 or not gap_s or lane.machine.rent:
            return True
        if session not in lane.begins_s:
            spans = (
                Span.of(record)
                for record in self.arrived.values()
                if (record.session or 1) < session
                and record.wall_s
                and self._lane_of[record.hardware] is lane
            )
            last_s = min(max((span.end_s for span in spans if span), default=now_s), now_s)
            lane.begins_s[session] = last_s + gap_s
            begin = datetime.fromtimestamp(last_s + gap_s, UTC)
            self.say(f"lane {lane.name}: session {session} begins at {begin:%H:%M:%S} UTC")
        return now_s >= lane.begins_s[session]

    async def _order(self, lane: Lane) -> None:
        if not await self._boxes.order(lane.machine, self._left_usd(), lane.session):
            left = f"{self._left_usd() or 0.0:.2f} of the budget of {self.budget_usd or 0.0:g} USD is left"
            self._give_up(lane, f"{left}, too little to rent a box for session {lane.session}")

    def _left_usd(self) -> float | None:
        return None if self.budget_usd is None else self.budget_usd - self.spent_usd()

    async def _submit(self, lane: Lane, repeats: list[Repeat], box_variables: dict[str, Any]) -> None:
        variables = {**within_budget(lane.machine, self._left_usd(), len(lane.entries)), **box_variables}
        job, order = await submit_lane(self._client, self.store, lane, repeats, variables, self.pace)
        self._receiver.expect(job.id, order)
        self._start(lane, job.id, order)
        self.say(f"lane {lane.name}: {len(order)} repeats sent to work pool {lane.machine.pool}")

    def _start(self, lane: Lane, flow_run_id: UUID, repeats: list[Repeat]) -> None:
        lane.start(flow_run_id, repeats, time.monotonic())
        self._jobs[flow_run_id] = lane

    def _accept(self, record: Record) -> None:
        self.arrived.setdefault(record.id, record)
        if lane := self._lane_of.get(record.hardware):
            lane.delivered(record.id)
        if record.cell in self._repeats and not self._missing(record.cell):
            self._wake(record.cell, None)

    async def _watch_jobs(self) -> None:
        if not self._jobs:
            return
        ours = FlowRunFilter(id=FlowRunFilterId(any_=list(self._jobs)))
        runs = {run.id: run for run in await flow_runs(self._client, ours)}
        for flow_run_id, lane in list(self._jobs.items()):
            run = runs.get(flow_run_id)
            if run and had_machine(run):
                ran_s, now = self._clock.ran_s(run), datetime.now(UTC)
                self._cost_usd[run.id] = job_usd(lane.machine, ran_s, stated_s(run, now))
            if run is None or has_ended(run):
                await self._receiver.collect()  # its last records can have come since the last look
                await self._job_ended(lane, flow_run_id, run, reason_of(run), end_of(run))
            elif flow_run_id in self._receiver.flooding:
                await self._stop(lane, run, f"lane job {run.name!r} {FLOODS}", JobEnd.UNFIT)
            elif had_machine(run) and (why := self._clock.overrun(run)):
                await self._stop(lane, run, why, JobEnd.UNREACHABLE)
            elif not has_begun(run):
                await self._mind_start(lane, run)

    async def _stop(self, lane: Lane, run: FlowRun, why: str, end: JobEnd) -> None:
        """End a job that its box does not end; store its records."""
        await stop_jobs(self._client, [run.id])
        await self._receiver.collect(COLLECT_S)
        await self._job_ended(lane, run.id, run, why, end)

    async def _job_ended(
        self, lane: Lane, flow_run_id: UUID, run: FlowRun | None, reason: str, end: JobEnd
    ) -> None:
        del self._jobs[flow_run_id]
        if lane.job is None or lane.job.flow_run_id != flow_run_id:
            return  # it had delivered everything, or its lane was given up
        if lane.machine.rent and end in BAD_BOX:
            await self._boxes.give_back(lane.machine.name)
            end = JobEnd.TAKEN_AWAY
        ran = has_begun(run) if run else flow_run_id in self._cost_usd
        self._settle(lane, *lane.job_ended(ran, reason, end), reason)

    async def _rental_ended(self, lane: Lane, reason: str, end: JobEnd) -> None:
        if lane.job:
            await stop_jobs(self._client, [lane.job.flow_run_id])
            await self._receiver.collect()
        if end is JobEnd.NO_MACHINE:
            return self._give_up(lane, reason)
        self._settle(lane, *lane.box_gone(reason, end), reason)

    async def _mind_start(self, lane: Lane, run: FlowRun) -> None:
        if why := lane.overdue(run.id, bool(run.state and run.state.is_pending()), time.monotonic()):
            await stop_jobs(self._client, [run.id])
            self._give_up(lane, why)

    async def _mind_budget(self) -> None:
        if self.budget_usd is None or self.spent_usd() <= self.budget_usd:
            return
        cut_short = self.total > len(self.arrived)
        await stop_jobs(self._client, self._jobs)
        for lane in self.lanes:
            await self._boxes.give_back(lane.machine.name)
            self._give_up(lane, f"the budget of {self.budget_usd:g} USD is spent")
        if cut_short:
            budget_spent(self.plan, self.budget_usd, self.spent_usd())

    def _give_up(self, lane: Lane, reason: str) -> None:
        self._settle(lane, [], lane.give_up(reason), f"lane {lane.name}: {reason}")

    def _settle(self, lane: Lane, lost: Sequence[Repeat], given_up: Sequence[Record], reason: str) -> None:
        if lost or given_up:
            self.say(f"{reason}; {len(lost)} repeats go back to the lane, {len(given_up)} are given up")
        if {r.verdict for r in given_up} & WORTH_RETRY and (self._left_usd() or 0.0) >= 0:
            lane_lost(self.plan, lane.name, reason, len(given_up))
        if lane.ask([repeat for repeat in lost if repeat.cell in self._repeats], time.monotonic()):
            self._asked.set()
        for record in given_up:
            self.store.add(record)
            self._accept(record)

    def _wake(self, cell: Cell, error: Exception | None) -> None:
        waiter = self._cells.pop(cell, None)
        if waiter and not waiter.done():
            waiter.set_exception(error) if error else waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = error
        for cell in list(self._cells):
            self._wake(cell, error)

    def spent_usd(self) -> float:
        """Return the cost so far, rented boxes at their own prices."""
        return sum(self._cost_usd.values()) + self._boxes.cost_usd()
