"""What people see: files in the results store, artifacts in the Prefect UI."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from prefect import task
from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.cache_policies import NO_CACHE

from tasks.analysis.model import Comparison
from tasks.courier import LOST_TOUCH
from tasks.dispatch import Dispatcher
from tasks.errors import GridbenchError
from tasks.plan import Plan, plan_rows
from tasks.store import REPORTS_FOLDER, REPORTS_URL, Store
from workloads.harness.errors import WorkloadsError
from workloads.harness.record import Record


async def announce(plan: Plan) -> None:
    """Show the plan and its estimate before anything is measured."""
    minutes = f"about {plan.estimate_s / 60:.0f} min and {plan.estimate_usd:.3g} USD"
    text = f"{plan.title}. {len(plan.cells)} cells, {plan.repeats} repeats each: {minutes}."
    await acreate_table_artifact(plan_rows(plan), key="bench-plan", description=text)


class Progress:
    """The share of repeats that have a record, as an artifact that moves."""

    def __init__(self, lanes: Dispatcher) -> None:
        self._lanes = lanes
        self._total = len(lanes.plan.cells) * lanes.plan.repeats
        self._shown = -1

    async def __aenter__(self) -> "Progress":
        self._artifact = await acreate_progress_artifact(
            0.0, key="bench-progress", description="repeats measured"
        )
        self._lanes.on_progress = self.show
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._lanes.on_progress = None
        await self.show()

    async def show(self) -> None:
        """Bring the artifact up to date, if anything has changed; a run does not fail for want of its bar."""
        done = len(self._lanes.arrived)
        if done != self._shown:
            text = f"{done} of {self._total} repeats measured"
            with suppress(*LOST_TOUCH):
                await aupdate_progress_artifact(self._artifact, 100.0 * done / self._total, description=text)
                self._shown = done


@task(cache_policy=NO_CACHE, persist_result=False)
async def publish(records: Sequence[Record], comparison: Comparison, store: Store) -> str:
    """Write the report's files and show the answer in the UI; returns the report's path."""
    report = write_files(records, comparison, store)
    await acreate_markdown_artifact(summary(comparison, store.plan, report), key="bench-summary")
    await acreate_table_artifact(
        comparison_rows(comparison), key="bench-comparison", description=store.plan.title
    )
    await acreate_link_artifact(
        report_url(report), link_text=f"Report of {store.plan.run}", key="bench-report"
    )
    return str(report)


def write_files(records: Sequence[Record], comparison: Comparison, store: Store) -> Path:
    """Write everything that is made from the records into the run's folder; returns the report's path.

    Raises:
        GridbenchError: the folder can't be written, or the disk is full.
    """
    # plotting libraries are slow to import, and nothing is measured now
    from tasks.report.info import RunInfo
    from tasks.report.write import write_report

    plan = store.plan
    run = RunInfo(plan.run, plan.suite, plan.created_at, plan.seed, plan.gridbench)
    try:
        return write_report(store.folder, records, comparison, run)
    except WorkloadsError as error:
        raise GridbenchError(f"results: {error}") from None


def report_url(report: Path) -> str:
    """Where a browser finds the report."""
    base, report = os.environ.get(REPORTS_URL), report.absolute()
    served = os.environ.get(REPORTS_FOLDER, str(report.parents[1])) == str(report.parents[1])
    return f"{base.rstrip('/')}/{report.parent.name}/{report.name}" if base and served else report.as_uri()


def summary(comparison: Comparison, plan: Plan, report: Path) -> str:
    """The answer first, in markdown."""
    from tasks.report.boxes import text_tables

    sentences = "\n".join(f"- {sentence}" for sentence in comparison.answer)
    return (
        f"# {plan.title}\n\n{sentences}\n\n"
        f"[Open the report]({report_url(report)}) (`{report}`)\n\n"
        f"```\n{text_tables(comparison)}\n```\n"
    )


def comparison_rows(comparison: Comparison) -> list[dict[str, str]]:
    """The comparison as the UI's table shows it, every number as text with its interval."""
    from tasks.report.table import comparison_table

    table = comparison_table(comparison).astype(object)
    return [{name: _text(value) for name, value in row.items()} for row in table.to_dict("records")]


def _text(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"  # NaN is pandas' word for missing
    return "" if value is None else str(value)
