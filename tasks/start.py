"""Open the store of a new run, or of one to resume."""

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.runtime import flow_run

from tasks.dispatch.flow_runs import measuring
from tasks.errors import GridbenchError
from tasks.planning.as_written import check_machines
from tasks.planning.hardware import Hardware
from tasks.planning.images import in_images
from tasks.planning.plan import Plan
from tasks.planning.planner import check_budget, make_plan
from tasks.planning.request import RunRequest
from tasks.pool_form import form_of, mistake_in
from tasks.prediction.kept import keep
from tasks.prediction.outlook import planned_forecasts
from tasks.script_files import check_files, keep_files
from tasks.store.bucket import Bucket, send
from tasks.store.store import Store
from tasks.travel.run_code import keep_code


async def open_store(request: RunRequest) -> Store:
    """Make a run's folder, or open the one to resume; name the flow run after it.

    Raises:
        GridbenchError: the request is impossible, too expensive, unwritable or under way.
    """
    folder, bucket = request.address.folder, await asyncio.to_thread(Bucket.of, request.address)
    if request.resume:
        store = await _resumed(request.resume, folder, bucket)
        check_plan(store.plan, request)
        check_budget(store.plan, request.budget_usd)
        await asyncio.to_thread(check_files, store)
    else:
        plan = request.plan or make_plan(request)
        check_budget(plan, request.budget_usd)
        await check_job_variables(in_images(plan))
        store = Store.create(folder, plan, bucket)
        keep(store, await asyncio.to_thread(planned_forecasts, plan, folder))
        await asyncio.to_thread(keep_code, store)
        await asyncio.to_thread(keep_files, store)
    await send(store)  # find out that a bucket refuses files before anything is paid for
    async with get_client() as client:
        me = UUID(flow_run.get_id())
        await client.update_flow_run(me, name=store.plan.run)
        await _take_turns(client, store.plan.run, me)
    return store


async def _resumed(run: str, folder: Path, bucket: Bucket | None) -> Store:
    if bucket and not (folder / run / "plan.json").exists():
        await asyncio.to_thread(bucket.fetch, run, folder)
    return Store.open(folder, run, bucket)


def check_plan(plan: Plan, request: RunRequest) -> None:
    """Check a stored plan before anything that it names is run.

    Raises:
        GridbenchError: not the plan that the command checked; without a command, other programs than in the
            hardware file.
    """
    if request.plan is None:
        check_machines(plan, request.night.version if request.night else None)
    elif plan != request.plan:
        raise GridbenchError(
            f"run {plan.run}: its plan.json has changed since the command read it; resume it again"
        )


async def _take_turns(client: PrefectClient, run: str, me: UUID) -> None:
    first = min(await measuring(client, run), key=lambda other: (other.start_time, other.id), default=None)
    if first and first.id != me:
        raise GridbenchError(f"run {run} is under way in flow run {first.id}: wait for it or cancel it")


NAMED = re.compile(r"\{\{\s*prefect\.variables\.(\w+)\s*\}\}")


def named_in(machine: Hardware) -> list[tuple[str, str]]:
    """Return (job variable, Prefect variable)."""
    variables = machine.job_variables.items()
    return [(field, name) for field, value in variables for name in NAMED.findall(json.dumps(value))]


async def check_job_variables(hardware: Iterable[Hardware]) -> None:
    """Check job variables with the server.

    The pool's form must accept each. Referenced Prefect variables must exist and not be empty.

    Raises:
        GridbenchError: Prefect would leave a field empty, ignore one, or refuse a value.
    """
    machines = [machine for machine in hardware if machine.job_variables]
    if not machines:
        return
    async with get_client() as client:
        for machine in machines:
            form = await form_of(client, machine.pool)
            if form and (mistake := mistake_in(machine.job_variables, form)):
                raise GridbenchError(f"hardware {machine.name}: {mistake}")
            await _check_references(client, machine)


async def _check_references(client: PrefectClient, machine: Hardware) -> None:
    for field, name in named_in(machine):
        variable = await client.read_variable_by_name(name)
        if variable is None or variable.value in (None, ""):
            raise GridbenchError(
                f"hardware {machine.name}: job_variables.{field} is the Prefect variable {name}, which "
                f"this server lacks: `prefect variable set {name} …`, or write the value there"
            )
