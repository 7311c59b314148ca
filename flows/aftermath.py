"""What is still done when a `bench` run was cancelled or has crashed: its records are kept, its lanes are stopped."""

from pathlib import Path

from prefect import Flow, State, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun

from tasks.courier import Inbox
from tasks.dispatch import stop_jobs
from tasks.store import DEFAULT, Store


async def collect_and_stop(flow: Flow, flow_run: FlowRun, state: State) -> None:
    """Stop the lane jobs that `flow_run` started and write the records that they have sent into its store."""
    async with get_client() as client:
        mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run.id]))
        jobs = [job.id for job in await client.read_flow_runs(flow_run_filter=mine)]
        await stop_jobs(client, jobs)
        if not jobs:
            return
        records, _ = await Inbox(client).new(jobs)
    results = flow_run.parameters.get("results")
    for record in records:
        Store.open(Path(results) if results else DEFAULT, record.run).add(record)
