"""Start flow runs of deployments, each once."""

from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound

from tasks.delivery import job_orders
from tasks.delivery.pace import Pace
from tasks.dispatch.flow_runs import LANE_TAG, run_tag
from tasks.dispatch.lane import Lane
from tasks.errors import GridbenchError
from tasks.planning.estimates import controls_on
from tasks.planning.hardware import RENTED_POOL, Hardware
from tasks.planning.images import image_of
from tasks.store.store import Store
from tasks.travel.image_start import in_image
from tasks.travel.run_code import code_for
from tasks.travel.sending import give_code
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
    """Start a flow run, or return the earlier one with the same `key`.

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
            idempotency_key=key,  # a request whose answer was lost has started its flow run anyway
        )
    except ObjectNotFound:
        command = f"prefect --no-prompt deploy --name {deployment.rpartition('/')[2]}"
        raise GridbenchError(
            f"deployment {deployment} is not on this Prefect server; run `{command}`"
        ) from None


async def submit_lane(
    client: PrefectClient,
    store: Store,
    lane: Lane,
    repeats: list[Repeat],
    job_variables: dict[str, Any],
    pace: Pace,
) -> tuple[FlowRun, list[Repeat]]:
    """Start the lane job; return it and its order.

    Polls fetch its parameters, so repeats and code are inputs, which only the job reads.

    Raises:
        GridbenchError: the server has no deployment for that pool, or the run's code can't be read.
    """
    plan, machine = store.plan, lane.machine
    code, image = code_for(store, machine, repeats), image_of(repeats[0])
    parameters: dict[str, Any] = {
        "run": plan.run,
        "hardware": machine.name,
        "count": len(repeats),
        "every_s": pace.deliver_s,
        "timeout_s": job_variables.get("timeout_s"),
        "command": list(machine.command) if machine.command and not image else None,
    }
    if len(lane.entries) > 1:
        parameters["turns_with"] = [other.name for other in lane.entries[1:]]
    if machine.reference and controls_on(machine, plan.night):
        is_version = plan.night and plan.night.version and plan.night.version.partner
        parameters["partner" if is_version else "reference"] = list(machine.reference)
    if code.ids:
        parameters |= {"code": list(code.scripts), "workloads": code.workloads}
        job_variables = job_variables | keeping(machine)
    if image and code.lane:
        job_variables = in_image(job_variables, image, code.lane)
    title = f"{lane.name} · {len(repeats)} repeats"
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
    await give_code(client, job.id, store, code.ids)
    return job, await job_orders.send_order(client, job.id, repeats)


def keeping(machine: Hardware) -> dict[str, Any]:
    """Return the job variable by which boxes behind SSH keep code, packages and data."""
    is_behind_ssh = machine.pool == RENTED_POOL or "hosts" in machine.job_variables
    return {"keep": True} if is_behind_ssh and "keep" not in machine.job_variables else {}
