"""Runs that no worker follows: after a restart, or when another worker of the pool is gone."""

import copy
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType, WorkPool

from .follow import JobFollow
from .job_configuration import ContainerJobConfiguration
from .outcome import JobOutcome
from .pool_runs import ACTIVE, OWNER, PoolRuns


class Survivor(Protocol):
    """A worker that takes over runs: what failover needs of it."""

    name: str
    thing: ClassVar[str]
    backend_id: UUID | None
    job_configuration: Any
    runs: PoolRuns
    follows: dict[UUID, JobFollow | None]

    @property
    def client(self) -> PrefectClient: ...  # noqa: D102
    @property
    def work_pool(self) -> WorkPool: ...  # noqa: D102
    async def stop_if_cancelled(self, follow: JobFollow) -> None: ...  # noqa: D102
    async def find_job(self, flow_run: FlowRun, configuration: Any) -> str | None: ...  # noqa: D102
    def is_busy_with(self, run: FlowRun) -> bool: ...  # noqa: D102
    def resume(self, run: FlowRun, job_id: str, configuration: Any) -> None: ...  # noqa: D102
    def submit_again(self, run: FlowRun) -> None: ...  # noqa: D102


class Failover:
    """Takes over the runs that other workers of the pool have left, and hands over those that others took."""

    def __init__(self, worker: Survivor) -> None:
        self._worker = worker

    async def cancel(self) -> None:
        """End the jobs of runs that are being cancelled, found with one query."""
        for run in await self._worker.runs.in_states([StateType.CANCELLING]):
            if follow := self._worker.follows.get(run.id):
                follow.cancel()

    async def look_round(self) -> None:
        """Compare the pool's runs with those that this worker follows."""
        worker, began_at = self._worker, anyio.current_time()
        active = {run.id: run for run in await worker.runs.in_states(ACTIVE)}
        online = await worker.runs.online()
        for follow in [follow for follow in worker.follows.values() if follow and follow.since < began_at]:
            run = active.get(follow.run.id)
            if run is None:
                await worker.stop_if_cancelled(follow)
            elif worker.runs.is_anothers(run):
                follow.hand_over()
        for run in self._orphans(active.values(), online):
            await self._adopt(run)

    def _orphans(self, runs: Iterable[FlowRun], online: set[str]) -> list[FlowRun]:
        """Return the runs that this worker is to take over.

        Before an ad-hoc run is labelled with its worker, only that one can run it.
        """
        worker = self._worker
        return [
            run
            for run in runs
            if (run.deployment_id or OWNER in run.labels)
            and not worker.is_busy_with(run)
            and worker.runs.is_mine(run, online)
        ]

    async def _adopt(self, listed: FlowRun) -> None:
        """Go on with a run: with its job, or from where its submission was left."""
        worker = self._worker
        run = await worker.client.read_flow_run(listed.id)  # it may have gone on since it was listed
        if run.state is None or run.state.type not in ACTIVE:
            return
        await worker.runs.claim(run.id)
        configuration: ContainerJobConfiguration = await worker.job_configuration.resolve_for_flow_run(
            run,
            client=worker.client,
            work_pool=copy.deepcopy(worker.work_pool),
            worker_name=worker.name,
            worker_id=worker.backend_id,
        )
        job_id = run.infrastructure_pid or await worker.find_job(run, configuration)
        if job_id:
            worker.resume(run, job_id, configuration)
        elif run.state.is_cancelling():
            never = JobOutcome("Cancelled", f"Cancelled from Prefect before there was a {worker.thing}.")
            await worker.runs.settle(run.id, "", never, own_command=False)
        elif run.state.is_pending():
            worker.submit_again(run)
