"""The flow `bench`: which machine should run this, at what speed, and at what price?"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prefect import State, flow, get_run_logger
from prefect.states import Cancelled, Failed
from pydantic.json_schema import SkipJsonSchema

from flows import form
from flows.hooks import collect_and_stop
from flows.opaque import opaque
from infra.images.context import revision
from infra.images.errors import ImageError
from tasks.ask import with_more_money
from tasks.dispatch.dispatcher import Dispatcher
from tasks.errors import GridbenchError
from tasks.gather import compare, gather
from tasks.measure import NOTHING, measure_all, nothing_measured
from tasks.next_cells import first_cells, next_cells
from tasks.own_script import OwnCommand, OwnScript, write_suite
from tasks.planning.cluster import Cluster
from tasks.planning.images import own_images
from tasks.planning.machines import machines_of
from tasks.planning.planner import OverBudget
from tasks.planning.request import RunRequest
from tasks.publish import Progress, announce, load_report, publish
from tasks.schema import validated
from tasks.start import open_store
from tasks.store.bucket import Mirror
from tasks.travel.image_start import Bundle, keep_lane

DECLINED = "Declined"  # state of a run whose estimate a person refused


@flow(name="bench", on_cancellation=[collect_and_stop], on_crashed=[collect_and_stop])
async def bench(
    suite: form.Suite = "quick",
    hardware: form.Hardware = ["local-cpu-1", "local-cpu"],  # noqa: B006 - the form in the UI shows it
    baseline: form.Baseline = "",
    repeats: form.Repeats = 0,
    sessions: form.Sessions = 0,
    budget_usd: form.Budget = 5.0,
    break_even: form.BreakEven = False,
    boxes: form.Boxes = 1,
    cluster: form.ClusterFile = None,
    results: form.Results = "",
    resume: form.Resume = "",
    request: SkipJsonSchema[RunRequest | None] = None,
) -> str | State[str]:
    """Measure a suite on hardware: which machine is fastest, which cheapest, and how sure is that?

    Args:
        suite: The cases to measure: a file in deployments/suites.
        hardware: The machines to measure on: files in deployments/hardware.
        baseline: The machine or box that speedups are relative to; the first one where empty.
        repeats: Repeats of each cell; 0 for the suite's own number. One gives no interval.
        sessions: Sessions of each machine, over which the repeats are spread: other boxes if it is rented, else other
            turns of its box; 0 for the suite's own number.
        budget_usd: Refuse to start above it by the estimate, and stop once it is spent.
        break_even: After the suite, measure further sizes until each break-even is known within 1.25x.
        boxes: Number of boxes to rent of each rented machine, to compare them with each other.
        cluster: The content of a cluster file: boxes of one kind, measured in place of the hardware.
        results: Folder of the results store, or a block such as s3-bucket/gridbench; results/ where empty.
        resume: Name of an earlier run: measure only its missing repeats. Of the other settings, only budget
            and results are used.
        request: Set by commands and other flows in place of all the others; the form does not show it.
    """
    try:
        request = request or RunRequest(
            suite=suite,
            hardware=tuple(hardware),
            baseline=baseline or None,
            repeats=repeats or None,
            sessions=sessions or None,
            budget_usd=budget_usd,
            break_even=break_even,
            boxes=boxes,
            cluster=None if cluster is None else validated(Cluster, cluster, "cluster"),
            results=results or None,
            resume=resume or None,
        )
        return await measured(request)
    except GridbenchError as error:  # a user's mistake is a sentence, without a traceback
        return Failed(message=str(error))


def check_exist(images: Iterable[str], say: Callable[[str], None]) -> None:
    """Refuse an image that its registry lacks; say which images were not looked up."""
    for image in images:
        from infra.images.registries import check_exists  # boto3 is slow to import

        try:
            if why := check_exists(image):
                say(f"Whether image {image} exists was not checked: {why}.")
        except ImageError as error:
            raise GridbenchError(str(error)) from None


def lane_code() -> Bundle:
    from infra.workers.ssh.lane_code import lane_bundle  # it imports asyncssh, which few runs need

    try:
        return lane_bundle()[1], revision()
    except (OSError, ImageError) as error:
        raise GridbenchError(
            f"the checkout is incomplete, so the image cannot get its code ({error})"
        ) from None


async def measured_own(
    kind: type[OwnScript] | type[OwnCommand],
    given: dict[str, Any],
    hardware: Sequence[str],
    budget_usd: float,
    results: str | None,
    shortlist: bool = False,
) -> str | State[str]:
    request = RunRequest(
        hardware=tuple(hardware), shortlist=shortlist, budget_usd=budget_usd, results=results or None
    )
    machines_of(request)  # check names first, so that a mistake leaves no suite behind
    own: OwnScript | OwnCommand = validated(kind, given, "script" if kind is OwnScript else "command")
    suite = write_suite(own, request.address.folder)
    return await measured(request.model_copy(update={"suite": str(suite)}))


async def measured(request: RunRequest) -> str | State[str]:
    try:
        store = await open_store(request)
    except OverBudget as over:
        allowed = await with_more_money(request, over)
        if allowed is None:
            return Cancelled(name=DECLINED, message=f"declined: {over}")
        request, store = allowed, await open_store(allowed)
    say = get_run_logger().info
    await asyncio.to_thread(check_exist, own_images(store.plan), say)
    await asyncio.to_thread(keep_lane, store, lane_code)
    await announce(store)
    async with Mirror(store, say), Dispatcher(store, request.budget_usd, say) as lanes, Progress(lanes):
        loading = asyncio.create_task(load_report(lanes))
        cells = first_cells(store.plan)
        while cells:
            await measure_all(cells, lanes, say)
            cells = await next_cells(lanes)
    await loading
    records = gather(store)
    comparison = compare(opaque(records), store)
    report = await publish(opaque(records), opaque(comparison), store)
    if why := nothing_measured(records, store.plan):  # a green run would claim an answer
        return Failed(name=NOTHING, message=why)
    return report
