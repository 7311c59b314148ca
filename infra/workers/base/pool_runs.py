"""What the worker says to Prefect about flow runs: who follows them, their logs, and how they ended."""

import datetime as dt
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

import anyio
import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.objects import Worker as WorkerOfPool
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Crashed

from infra.workers.base.outcome import JobOutcome
from infra.workers.base.retry import call_until_answered

OWNER = "prefect.worker.name"  # the base class labels a run with its worker; that one follows the job
NOBODY = ""
PAGE = 200
HEARTBEATS = 3  # missed ones after which a worker counts as gone, as Prefect counts
UNCLAIMED_S = 60  # a PENDING run's worker may take so long until it says that the run is its own
ACTIVE = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


class PoolRuns:
    """The flow runs of one work pool, as one of its workers sees them."""

    def __init__(self, client: PrefectClient, pool: str, worker: str) -> None:
        self.client, self._pool, self._worker = client, pool, worker
        # On SQLite, Prefect's server answers 503 to all but one of the label changes that come together.
        self.labelling = anyio.Lock()

    async def in_states(self, states: list[StateType]) -> list[FlowRun]:
        """Read all runs of the pool that are in one of the states."""
        found: list[FlowRun] = []
        while True:
            page = await self.client.read_flow_runs(
                flow_run_filter=FlowRunFilter(
                    state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states))
                ),
                work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[self._pool])),
                offset=len(found),
                limit=PAGE,
            )
            found += page
            if len(page) < PAGE:
                return found

    async def online(self) -> set[str]:
        """The names of the pool's workers that are alive, this one included."""
        return {self._worker, *alive(await self.client.read_workers_for_work_pool(self._pool))}

    def is_mine(self, run: FlowRun, online: set[str]) -> bool:
        """Whether this worker is to follow a run: its own, or the heir of one that is gone."""
        owner = run.labels.get(OWNER)
        if owner == self._worker:
            return True
        if owner in online or (owner is None and age_s(run) < UNCLAIMED_S):
            return False
        return heir(run.id, online) == self._worker

    def is_anothers(self, run: FlowRun) -> bool:
        """Whether another worker has said that it follows the run."""
        return run.labels.get(OWNER) not in (None, NOBODY, self._worker)

    async def claim(self, run_id: UUID) -> None:
        """Say that this worker follows a run."""
        async with self.labelling:
            await call_until_answered(self.client.update_flow_run_labels, run_id, {OWNER: self._worker})

    async def label(self, run_id: UUID, labels: dict[str, float]) -> None:
        """Add labels to a run, if Prefect answers: nothing rests on them."""
        with suppress(httpx.HTTPError, ObjectNotFound):
            await self.client.update_flow_run_labels(run_id, dict(labels))

    async def release(self, run_ids: Iterable[UUID]) -> None:
        """Say that this worker follows some runs no longer, so that others need not wait."""
        for run_id in run_ids:
            try:
                async with self.labelling:
                    await self.client.update_flow_run_labels(run_id, {OWNER: NOBODY})
            except (httpx.HTTPError, ObjectNotFound):
                continue  # the worker counts as gone after a while

    async def try_number(self, run_id: UUID) -> int:
        """Which try of a run this is: how often it has been scheduled. No worker's restart changes it."""
        states = await call_until_answered(self.client.read_flow_run_states, run_id)
        return sum(state.type == StateType.SCHEDULED for state in states)

    async def settle(
        self, run_id: UUID, job_id: str, ending: JobOutcome, *, own_command: bool
    ) -> State | None:
        """Put a run whose job has ended into its final state; what the flow said itself stays.

        Returns the state that was set, or None where nothing was to be said.
        """
        try:
            run = await call_until_answered(self.client.read_flow_run, run_id)
        except ObjectNotFound:
            return None
        state = verdict(run, job_id, ending, own_command=own_command)
        if state is None:
            return None
        replaces = run.state is not None and run.state.is_final()
        cancels = state.type == StateType.CANCELLED
        await call_until_answered(self.client.set_flow_run_state, run_id, state, force=replaces or cancels)
        return state


def verdict(run: FlowRun, job_id: str, ending: JobOutcome, *, own_command: bool) -> State | None:
    """The state that a job's end gives its run, or None where the run is further already."""
    now = run.state
    if now is None or now.is_scheduled() or now.is_paused():
        return None  # suspended, or waiting for its next try
    if run.infrastructure_pid not in (None, job_id):
        return None  # the next try has a job of its own
    if ending.name == "Cancelled" or now.is_cancelling():
        done = now.is_completed() or now.is_failed() or now.is_cancelled()
        return None if done else Cancelled(message=ending.message)
    if now.is_final():
        # An engine that gets SIGTERM says Crashed, and can't know why.
        vague = now.is_crashed() and now.name == "Crashed" and ending.name not in ("Exited", "Crashed")
        return Crashed(name=ending.name, message=ending.message) if vague else None
    if ending.name != "Exited":
        return Crashed(name=ending.name, message=ending.message)
    if now.is_pending() and own_command:
        return Completed(message=ending.message)  # no flow's command: its exit code is all there is
    said = "never started" if now.is_pending() else "did not say how it ended"
    return Crashed(message=f"{ending.message.rstrip('.')}, but the flow {said}.")


def alive(workers: Iterable[WorkerOfPool]) -> set[str]:
    """The workers that still send heartbeats, by the server's clock: the newest heartbeat is now."""
    beating = [worker for worker in workers if worker.last_heartbeat_time]
    newest = max((worker.last_heartbeat_time for worker in beating), default=None)
    return {
        worker.name
        for worker in beating
        if (newest - worker.last_heartbeat_time).total_seconds()
        <= HEARTBEATS * (worker.heartbeat_interval_seconds or 30)
    }


def heir(run_id: UUID, online: set[str]) -> str:
    """The one worker that takes over a run; all workers choose the same, without talking to each other."""
    return min(online, key=lambda name: hashlib.sha256(f"{run_id} {name}".encode()).digest())


def age_s(run: FlowRun) -> float:
    """Seconds since a run came into its state."""
    return (dt.datetime.now(dt.UTC) - run.state.timestamp).total_seconds() if run.state else 0.0
