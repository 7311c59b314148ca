"""The flow `bench`: which machine should run this, at what speed, and at what price?"""

import asyncio
from typing import Any, Literal

from prefect import State, flow, get_run_logger
from prefect.states import Failed
from pydantic import NonNegativeFloat, PositiveInt

from flows.hooks import collect_and_stop
from tasks.dispatch.break_even import further_cells
from tasks.dispatch.dispatcher import Dispatcher
from tasks.errors import GridbenchError
from tasks.gather import compare, gather
from tasks.measure import measure
from tasks.planning.hardware import hardware_names, suites
from tasks.publish import Progress, announce, publish
from tasks.start import open_store
from tasks.store.bucket import Mirror

Suite = Literal[tuple(suites())]  # type: ignore[valid-type]
Hardware = Literal[tuple(hardware_names())]  # type: ignore[valid-type]


@flow(name="bench", on_cancellation=[collect_and_stop], on_crashed=[collect_and_stop])
async def bench(
    suite: Suite = "quick",
    hardware: list[Hardware] = ["local-cpu-1", "local-cpu"],  # noqa: B006 - the form in the UI shows it
    baseline: Hardware | str | None = None,
    repeats: PositiveInt | None = None,
    budget_usd: NonNegativeFloat = 5.0,
    resume: str | None = None,
    results: str | None = None,
    break_even: bool = False,
    cluster: dict[str, Any] | None = None,
    boxes: PositiveInt = 1,
    night: dict[str, Any] | None = None,
) -> str | State[str]:
    """Measure a suite on hardware: which machine is fastest, which cheapest, and how sure is that?

    Args:
        suite: Which cases to measure: a file in deployments/suites.
        hardware: Which machines to measure on: files in deployments/hardware.
        baseline: What speedups are taken against, a machine or a box; the first where empty.
        repeats: Fresh processes per cell; the suite's own number where empty. One has no interval.
        budget_usd: Refuse to start above it by the estimate, and stop once it is spent.
        resume: Name of an earlier run: measure only what it lacks, whatever else is said here.
        results: Folder of the results store, or a block such as s3-bucket/gridbench; results/ where empty.
        break_even: After the suite, measure further sizes until each break-even is known within 1.25x.
        cluster: Boxes of one kind in place of the hardware: what a cluster file holds.
        boxes: How many to rent of each machine that is rented, to compare them box against box.
        night: Set by the flow nightly: the channel of the series, the run it confirms, the only cases.
    """
    say = get_run_logger().info
    try:
        asked = (suite, hardware, baseline, repeats, budget_usd, resume, results, break_even, cluster)
        store = await open_store(*asked, boxes=boxes, night=night)
        await announce(store.plan)
        async with Mirror(store, say), Dispatcher(store, budget_usd, say) as lanes, Progress(lanes):
            cells = store.plan.cells
            while cells:
                await asyncio.gather(
                    *(
                        measure.with_options(task_run_name=cell.id)(cell, lanes, return_state=True)
                        for cell in cells
                    )
                )
                cells = further_cells(lanes)
        records = gather(store)
        comparison = compare(records, store)
        return await publish(records, comparison, store)
    except GridbenchError as error:  # a mistake of the user's is a sentence, not a traceback
        return Failed(message=str(error))
