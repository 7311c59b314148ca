"""What is done after a `bench` run was cancelled or has crashed: its lanes are stopped, its records kept."""

from pathlib import Path

from prefect import Flow, State, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import flow_run_logger

from tasks.aftermath import collect, flow_runs, is_final, lane_jobs, repeats_of
from tasks.dispatch import stop_jobs
from tasks.store import DEFAULT, Store


async def collect_and_stop(flow: Flow, flow_run: FlowRun, state: State) -> None:
    """Stop the lane jobs that `flow_run` started and write the records that they have sent into its store."""
    async with get_client() as client:
        mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run.id]))
        jobs = await flow_runs(client, mine)
        if not jobs:
            return
        await stop_jobs(client, [job.id for job in jobs if not is_final(job.state)])
        results = flow_run.parameters.get("results")
        store = Store.open(Path(results) if results else DEFAULT, repeats_of(jobs[0])[0].run)
        for sentence in await collect(client, store, await lane_jobs(client, store.plan.run)):
            flow_run_logger(flow_run, flow).warning(sentence)
