"""Starts a flow run of a deployment for a run of ours: once, however often it has to be asked for."""

from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound

from tasks.dispatch.flow_runs import LANE_TAG, REPEATS, run_tag
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
    """The flow run, which others may have been told to start by the same `key`: it is the same one then.

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
            idempotency_key=key,  # an answer that was lost has made its flow run all the same
        )
    except ObjectNotFound:
        sentence = (
            f"deployment {deployment} is not on this Prefect server; run `prefect --no-prompt deploy --all`"
        )
        raise GridbenchError(sentence) from None


async def submit_lane(
    client: PrefectClient, plan: Plan, lane: Lane, repeats: list[Repeat], job_variables: dict[str, Any]
) -> FlowRun:
    """The lane job that measures these repeats, and the controls of a night, in the lane's work pool.

    Raises:
        GridbenchError: the server has no deployment for that pool.
    """
    machine = lane.machine
    parameters: dict[str, Any] = {
        "repeats": REPEATS.dump_python(repeats, mode="json"),
        "command": list(machine.command) if machine.command else None,
    }
    if machine.reference and controls_on(machine, plan.night):
        parameters["reference"] = list(machine.reference)
    title = f"{machine.name} · {len(repeats)} repeats"
    return await submit(
        client,
        f"lane/{machine.pool}",
        parameters,
        run=plan.run,
        tag=LANE_TAG,
        title=title,
        key=lane.ticket,
        job_variables=job_variables,
    )
