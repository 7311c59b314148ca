"""Start flow runs of deployments for a run, each once, however often the request is repeated."""

from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound

from tasks.delivery import orders
from tasks.dispatch.flow_runs import LANE_TAG, run_tag
from tasks.dispatch.lane import Lane
from tasks.errors import GridbenchError
from tasks.planning.estimates import controls_on
from tasks.planning.plan import Plan
from workloads.harness.records.repeat import Repeat


async def submit(
    client: PrefectClient,
    deployment: str,
    parameters: dict[str, Any],
    *,
    run: str,
    tag: str,
    title: str,
    key: str,
    job_variables: dict[str, Any] | None = None,
) -> FlowRun:
    """Start a flow run of a deployment; return the earlier one if the same `key` has started it before.

    Raises:
        GridbenchError: the server has no such deployment.
    """
    try:
        return await arun_deployment(
            deployment,
            client=client,
            parameters=parameters,
            timeout=0,
            flow_run_name=title,
            tags=[tag, run_tag(run)],
            job_variables=job_variables,
            idempotency_key=key,  # a request whose answer was lost has started its flow run all the same
        )
    except ObjectNotFound:
        command = f"prefect --no-prompt deploy --name {deployment.rpartition('/')[2]}"
        raise GridbenchError(
            f"deployment {deployment} is not on this Prefect server; run `{command}`"
        ) from None


async def submit_lane(
    client: PrefectClient,
    plan: Plan,
    lane: Lane,
    repeats: list[Repeat],
    job_variables: dict[str, Any],
    every_s: float,
) -> tuple[FlowRun, list[Repeat]]:
    """Start the lane job that measures these repeats, with the controls of a night; return it and its order.

    Its parameters are small, because polls fetch them: the repeats are an input, which only the job reads.

    Raises:
        GridbenchError: the server has no deployment for that pool.
    """
    machine = lane.machine
    parameters: dict[str, Any] = {
        "run": plan.run,
        "hardware": machine.name,
        "count": len(repeats),
        "every_s": every_s,
        "timeout_s": job_variables.get("timeout_s"),
        "command": list(machine.command) if machine.command else None,
    }
    if machine.reference and controls_on(machine, plan.night):
        parameters["reference"] = list(machine.reference)
    title = f"{machine.name} · {len(repeats)} repeats"
    job = await submit(
        client,
        f"lane/{machine.pool}",
        parameters,
        run=plan.run,
        tag=LANE_TAG,
        title=title,
        key=lane.ticket,
        job_variables=job_variables,
    )
    return job, await orders.give(client, job.id, repeats)
