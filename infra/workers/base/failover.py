"""Runs that no worker follows: after a restart, or when another worker of the pool is gone."""

import copy
from typing import TYPE_CHECKING

import anyio
from prefect.client.schemas.objects import FlowRun, StateType

from infra.workers.base.outcome import JobOutcome
from infra.workers.base.pool_runs import ACTIVE

if TYPE_CHECKING:
    from infra.workers.base.worker import FollowingWorker


class Successor:
    """Takes up what other workers of the pool have left, and gives back what they have taken up."""

    def __init__(self, worker: "FollowingWorker") -> None:
        self._worker = worker

    async def cancel(self) -> None:
        """End the jobs of runs that are being cancelled: one question for all of them."""
        for run in await self._worker.runs.in_states([StateType.CANCELLING]):
            if follow := self._worker.follows.get(run.id):
                follow.cancel()

    async def look_round(self) -> None:
        """Compare the pool's runs with those that this worker follows."""
        worker, asked_at = self._worker, anyio.current_time()
        active = {run.id: run for run in await worker.runs.in_states(ACTIVE)}
        online = await worker.runs.online()
        for follow in [follow for follow in worker.follows.values() if follow and follow.since < asked_at]:
            run = active.get(follow.run.id)
            if run is None:
                await worker.stop_if_cancelled(follow)
            elif worker.runs.is_anothers(run):
                follow.hand_over()
        for run in active.values():
            # What was never deployed was given to one worker directly, which alone can submit it.
            if run.deployment_id and not worker.is_busy_with(run) and worker.runs.is_mine(run, online):
                await self._adopt(run)

    async def _adopt(self, listed: FlowRun) -> None:
        """Go on with a run: with its job, or from where its submission was left."""
        worker = self._worker
        run = await worker.client.read_flow_run(listed.id)  # it may have gone on since it was listed
        if run.state is None or run.state.type not in ACTIVE:
            return
        await worker.runs.claim(run.id)
        asked = await worker.job_configuration.resolve_for_flow_run(
            run,
            client=worker.client,
            work_pool=copy.deepcopy(worker.work_pool),
            worker_name=worker.name,
            worker_id=worker.backend_id,
        )
        job_id = run.infrastructure_pid or await worker.find_job(run, asked)
        if job_id:
            worker.resume(run, job_id, asked)
        elif run.state.is_cancelling():
            never = JobOutcome("Cancelled", f"Cancelled from Prefect before there was a {worker.thing}.")
            await worker.runs.settle(run.id, "", never, own_command=False)
        elif run.state.is_pending():
            worker.submit_again(run)
