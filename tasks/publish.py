"""A report's files, and its artifacts in the Prefect UI."""

import asyncio
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from prefect import task
from prefect.artifacts import (
    acreate_image_artifact,
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.cache_policies import NO_CACHE

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.dispatch.dispatcher import Dispatcher
from tasks.errors import GridbenchError
from tasks.findings.two_runs import ComparedRun, compare_runs
from tasks.imported import SUITE as IMPORTED
from tasks.planning.plan import FURTHER, Plan, plan_rows, skip_lines
from tasks.prediction.kept import kept_in, machine_texts
from tasks.report.artifacts import picture_urls, stage_tables
from tasks.report.info import RunInfo
from tasks.results.comparison import Comparison
from tasks.store.bucket import hand_in
from tasks.store.report_keys import REPORTS_SECRET, key_of_run
from tasks.store.store import REPORTS_FOLDER, REPORTS_URL, Store
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record

LOOK_S = 0.1  # interval of looks for the first lane


async def announce(store: Store) -> None:
    """Show plan, estimate and predictions."""
    plan = store.plan
    predicted = machine_texts(kept_in(store.folder), plan)
    minutes = f"about {plan.estimate_s / 60:.0f} min and {plan.estimate_usd:.3g} USD"
    text = f"{plan.title}. {len(plan.cells)} cells, repeats each: {plan.repeats}; {minutes}."
    text += f" {FURTHER}" if plan.break_even else ""
    text = "\n\n".join([text, *plan.notes, *skip_lines(plan)])
    await acreate_table_artifact(plan_rows(plan, predicted), key="bench-plan", description=text)


class Progress:
    """An artifact: the share of repeats that have a record."""

    def __init__(self, lanes: Dispatcher) -> None:
        self._lanes = lanes
        self._shown = -1, -1

    async def __aenter__(self) -> "Progress":
        text = "repeats measured"
        self._artifact = await acreate_progress_artifact(0.0, key="bench-progress", description=text)
        self._lanes.on_progress = self.show
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._lanes.on_progress = None
        await self.show()

    async def show(self) -> None:
        """Update the artifact, if the API can be reached."""
        total = self._lanes.total
        done = min(len(self._lanes.arrived), total)
        if (done, total) != self._shown:
            text = f"{done} of {total} repeats measured"
            with suppress(*LOST_TOUCH):
                await aupdate_progress_artifact(self._artifact, 100.0 * done / total, description=text)
                self._shown = done, total


async def load_report(lanes: Dispatcher) -> None:
    """Import while lanes start, because it takes a second."""
    while not lanes.idle and not any(lane.measuring for lane in lanes.lanes):
        await asyncio.sleep(LOOK_S)
    await asyncio.to_thread(import_module, "tasks.report.write")


@task(cache_policy=NO_CACHE, persist_result=False)
async def publish(records: Sequence[Record], comparison: Comparison, store: Store) -> str:
    """Write the report's files, show the answer in the UI, and return the report's path."""
    report = write_files(records, comparison, store)
    url, refused = report_url(report), None
    try:
        url = await hand_in(store, report) or url
    except GridbenchError as error:  # raised after the answer is shown
        refused = error
    await acreate_markdown_artifact(summary(comparison, store.plan, report, url), key="bench-summary")
    for key, (description, rows) in stage_tables(comparison).items():
        await acreate_table_artifact(rows, key=key, description=description)
    for key, (description, picture) in picture_urls(report.parent).items():
        await acreate_image_artifact(picture, key=key, description=description)
    await acreate_link_artifact(url, link_text=f"Report of {store.plan.run}", key="bench-report")
    if refused:
        raise refused
    return str(report)


def write_files(records: Sequence[Record], comparison: Comparison, store: Store) -> Path:
    """Return the report's path.

    Raises:
        GridbenchError: the folder can't be written, or the disk is full.
    """
    return _written("results", store.folder, records, comparison, run_info(store.plan))


def run_info(plan: Plan) -> RunInfo:
    title = plan.title if plan.suite == IMPORTED else ""  # the suite of imported records is unknown
    return RunInfo(plan.run, plan.suite, plan.created_at, plan.seed, plan.gridbench, title)


def write_comparison(first: Store, second: Store, folder: Path) -> tuple[Path, list[str]]:
    """Return the report's path, and sentences for the terminal.

    Raises:
        GridbenchError: one run twice, no record, or an unwritable folder.
    """
    one, other = first.plan, second.plan
    if one.run == other.run:
        raise GridbenchError(f"run {one.run} can't be compared with itself; name two runs")
    (side, odd), (other_side, more_odd) = _side(first), _side(second)
    records, comparison = compare_runs(side, other_side)
    suites = " and ".join(dict.fromkeys((one.suite, other.suite)))
    names = f"{other.run} against {one.run}"
    run = RunInfo(names, suites, other.created_at, other.seed, other.gridbench, names)
    report = _written("output", folder, records, comparison, run)
    left_out = [f"left out: {sentence}" for sentence in (*odd, *more_odd)]
    return report, [*comparison.sentences, *comparison.unpaired, *left_out]


def _written(
    what: str, folder: Path, records: Sequence[Record], comparison: Comparison, run: RunInfo
) -> Path:
    from tasks.report.write import write_report  # slow: imports plotting libraries

    try:
        return write_report(folder, records, comparison, run)
    except WorkloadsError as error:
        raise GridbenchError(f"{what}: {error}") from None


def _side(store: Store) -> tuple[ComparedRun, list[str]]:
    plan, (records, odd) = store.plan, store.records()
    if not records:
        raise GridbenchError(f"run {plan.run} has no record that can be read; `gridbench resume {plan.run}`")
    return ComparedRun(plan.run, tuple(records), tuple(plan.machines), plan.baseline), odd


def report_url(report: Path) -> str:
    base, report = os.environ.get(REPORTS_URL), report.absolute()
    run, folder = report.parent.name, str(report.parents[1])
    if not base or os.environ.get(REPORTS_FOLDER, folder) != folder:
        return report.as_uri()
    secret = os.environ.get(REPORTS_SECRET)
    keyed = f"{key_of_run(secret, run)}/{run}" if secret else run
    return f"{base.rstrip('/')}/{keyed}/{report.name}"


def summary(comparison: Comparison, plan: Plan, report: Path, url: str) -> str:
    """Return escaped markdown."""
    from tasks.report.grid import grid_of
    from tasks.report.text.boxes import text_tables

    def listed(sentences: Sequence[str]) -> str:
        return "\n".join(f"- {plain(sentence)}" for sentence in sentences)

    reasons = [caveat.reason for caveat in comparison.caveats]
    further = [*comparison.details, *comparison.observations]
    parts = [
        f"# {plan.title}",
        listed(comparison.answer),
        plain(comparison.caveat_line),
        f"[Open the report]({url}) (`{report}`)",
        f"~~~~~~\n{text_tables(grid_of((), replace(comparison, answer=(), details=(), caveats=())))}\n~~~~~~",
        f"## Details\n\n{listed(further)}" if further else "",
        f"## Caveats\n\n{listed(reasons)}" if reasons else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def plain(sentence: str) -> str:
    """Escape markdown, such as `<b>` or `a_b_c`."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join(sentence.split()))
