"""The flow `bench`: which machine should run this, at what speed, and at what price?"""

import asyncio
from pathlib import Path
from typing import Annotated

from prefect import State, flow, get_run_logger
from prefect.states import Failed
from pydantic import Field

from flows.aftermath import collect_and_stop
from tasks.catalog import hardware_names, suites
from tasks.dispatch import Dispatcher
from tasks.errors import GridbenchError
from tasks.gather import compare, gather
from tasks.measure import measure
from tasks.open import open_store
from tasks.publish import Progress, announce, publish

Suite = Annotated[str, Field(json_schema_extra={"enum": suites()})]
HardwareName = Annotated[str, Field(json_schema_extra={"enum": hardware_names()})]


@flow(
    name="bench",
    description="Measures a suite on hardware and says which machine is fastest, which cheapest, and how sure that is.",
    on_cancellation=[collect_and_stop],
    on_crashed=[collect_and_stop],
)
async def bench(
    suite: Annotated[Suite, Field(title="Suite", description="Which cases to measure")] = "quick",
    hardware: Annotated[
        list[HardwareName], Field(title="Hardware", description="Which machines to measure on")
    ] = ["local-cpu", "local-cpu-1"],  # noqa: B006 - Prefect shows the default in its form
    baseline: Annotated[
        HardwareName | None, Field(title="Baseline", description="What speedups are against; the first by default")
    ] = None,
    repeats: Annotated[
        int | None, Field(title="Repeats", ge=1, description="Fresh processes per cell; the suite's by default")
    ] = None,
    budget_usd: Annotated[
        float, Field(title="Budget, USD", ge=0, description="Refuse to start above it, and stop when it is spent")
    ] = 5.0,
    resume: Annotated[
        str | None, Field(title="Resume", description="An earlier run: measure only what it lacks")
    ] = None,
    results: Annotated[
        str | None, Field(title="Results", description="Folder of the results store; results/ by default")
    ] = None,
) -> str | State[str]:
    """Plan → measure → gather → compare → publish; returns the report's path."""
    log = get_run_logger().info
    try:
        store = await open_store(suite, hardware, baseline, repeats, budget_usd, resume, results)
        await announce(store.plan)
        async with Dispatcher(store, budget_usd, log) as lanes, Progress(lanes):
            cells = [measure.with_options(task_run_name=cell.id)(cell, lanes, return_state=True) for cell in lanes.plan.cells]
            await asyncio.gather(*cells)
        records = gather(store)
        comparison = compare(records, store)
        return await publish(records, comparison, store)
    except GridbenchError as error:  # a mistake of the user's is a sentence, not a traceback
        return Failed(message=str(error))
