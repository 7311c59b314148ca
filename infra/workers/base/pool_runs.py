"""A work pool's flow runs, and the worker that follows each."""

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
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

from .outcome import OUTCOME_LABEL, Cause, JobOutcome
from .retry import call_until_answered

OWNER = "prefect.worker.name"  # the base class labels a run with its worker, which follows the job
NOBODY = ""
PAGE = 200
HEARTBEATS = 3  # missed ones after which a worker counts as gone, as in Prefect
UNCLAIMED_S = 60  # seconds until the worker of a PENDING run must have claimed it
ACTIVE = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


class PoolRuns:
    """The flow runs of one work pool, as one of its workers sees them."""

    def __init__(self, client: PrefectClient, pool: str, worker: str) -> None:
        self.client, self._pool, self._worker = client, pool, worker
        # On SQLite, Prefect's server answers 503 to all but one of several simultaneous label changes.
        self.labelling = anyio.Lock()

    async def in_states(self, states: list[StateType]) -> list[FlowRun]:
        runs: list[FlowRun] = []
        while True:
            page = await self.client.read_flow_runs(
                flow_run_filter=FlowRunFilter(
                    state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states))
                ),
                work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[self._pool])),
                offset=len(runs),
                limit=PAGE,
            )
            runs += page
            if len(page) < PAGE:
                return runs

    async def online(self) -> set[str]:
        """Return the pool's live workers, this one included."""
        return {self._worker, *alive(await self.client.read_workers_for_work_pool(self._pool))}

    def is_mine(self, run: FlowRun, online: set[str]) -> bool:
        """Return True if this worker must follow a run: its own, or one that it takes over."""
        owner = run.labels.get(OWNER)
        if owner == self._worker:
            return True
        if owner in online or (owner is None and age_s(run) < UNCLAIMED_S):
            return False
        return heir(run.id, online) == self._worker

    def is_anothers(self, run: FlowRun) -> bool:
        return run.labels.get(OWNER) not in (None, NOBODY, self._worker)

    async def claim(self, run_id: UUID) -> None:
        async with self.labelling:
            await call_until_answered(self.client.update_flow_run_labels, run_id, {OWNER: self._worker})

    async def label(self, run_id: UUID, labels: Mapping[str, float]) -> None:
        """Add times to a run's labels; they mark the begin of its cost."""
        await self._label(run_id, dict(labels))

    async def release(self, run_ids: Iterable[UUID]) -> None:
        """Remove this worker's name from runs, so that others take them over at once."""
        for run_id in run_ids:
            try:
                async with self.labelling:
                    await self.client.update_flow_run_labels(run_id, {OWNER: NOBODY})
            except (httpx.HTTPError, ObjectNotFound):
                continue  # the worker counts as gone after a while

    async def try_number(self, run_id: UUID) -> int:
        return tries(await call_until_answered(self.client.read_flow_run_states, run_id))

    async def settle(
        self, run_id: UUID, job_id: str, outcome: JobOutcome, *, own_command: bool
    ) -> State | None:
        """Set a run's final state and labels; keep the flow's own state. None if it has left its old state."""
        try:
            run = await call_until_answered(self.client.read_flow_run, run_id)
        except ObjectNotFound:
            return None
        state = verdict(run, job_id, outcome, own_command=own_command)
        if state is None:
            if run.state and run.state.is_crashed():
                await self.label_cause(run_id, outcome.cause)
            return None
        replaces = run.state is not None and run.state.is_final()
        cancels = state.type == StateType.CANCELLED
        await call_until_answered(self.client.set_flow_run_state, run_id, state, force=replaces or cancels)
        await self.label_cause(run_id, outcome.cause)
        return state

    async def label_cause(self, run_id: UUID, cause: Cause) -> None:
        await self._label(run_id, {OUTCOME_LABEL: cause.value})

    async def _label(self, run_id: UUID, labels: dict[str, Any]) -> None:
        async with self.labelling:
            with suppress(httpx.HTTPStatusError, ObjectNotFound):
                await call_until_answered(self.client.update_flow_run_labels, run_id, labels)


def verdict(run: FlowRun, job_id: str, outcome: JobOutcome, *, own_command: bool) -> State | None:
    """Return None if the run has already left its old state."""
    now = run.state
    if run.infrastructure_pid not in (None, job_id):
        return None  # the next try has its own job
    if now is None or now.is_paused() or (now.is_scheduled() and not in_process(run)):
        return None  # suspended, or waiting for its next try
    if outcome.name == "Cancelled" or now.is_cancelling():
        done = now.is_completed() or now.is_failed() or now.is_cancelled()
        return None if done else Cancelled(message=outcome.message)
    if now.is_final():
        # An engine that gets SIGTERM reports Crashed, without the reason.
        vague = now.is_crashed() and now.name == "Crashed" and outcome.name not in ("Exited", "Crashed")
        return Crashed(name=outcome.name, message=outcome.message) if vague else None
    if outcome.name != "Exited":
        return Crashed(name=outcome.name, message=outcome.message)
    if now.is_pending() and own_command:
        # the command runs no flow: its exit code is the only result
        return Completed(message=outcome.message)
    flow_did = "never started" if now.is_pending() else "did not report how it ended"
    return Crashed(message=f"{outcome.message.rstrip('.')}, but the flow {flow_did}.")


def in_process(run: FlowRun) -> bool:
    """Return True if a run's next try was due in the process of the previous one.

    No other process starts it: without that one, the run would wait for ever.
    """
    waits = run.state is not None and run.state.name == "AwaitingRetry"
    return waits and run.empirical_policy.retry_type == "in_process"


def tries(states: Iterable[State]) -> int:
    """Count a run's tries, from its states, oldest first.

    A try begins when the run is scheduled; an ad-hoc run's when it becomes PENDING.
    """
    count, before = 0, None
    for state in states:
        ad_hoc = state.type == StateType.PENDING and (before is None or before.is_final())
        count += state.type == StateType.SCHEDULED or ad_hoc
        before = state
    return count


def alive(workers: Iterable[WorkerOfPool]) -> set[str]:
    """Return the workers with heartbeats; the newest heartbeat is the server's now."""
    heartbeats = [(worker, worker.last_heartbeat_time) for worker in workers if worker.last_heartbeat_time]
    newest = max((time for _, time in heartbeats), default=dt.datetime.min)
    return {
        worker.name
        for worker, time in heartbeats
        if (newest - time).total_seconds() <= HEARTBEATS * (worker.heartbeat_interval_seconds or 30)
    }


def heir(run_id: UUID, online: set[str]) -> str:
    """Return the worker that takes over a run; all workers compute the same."""
    return min(online, key=lambda name: hashlib.sha256(f"{run_id} {name}".encode()).digest())


def age_s(run: FlowRun) -> float:
    return (dt.datetime.now(dt.UTC) - run.state.timestamp).total_seconds() if run.state else 0.0
