"""What is said at the end of a run."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from rich.console import Console

from tasks.aftermath import collect, lane_jobs
from tasks.analysis.compare import compare
from tasks.analysis.model import Comparison
from tasks.courier import LOST_TOUCH
from tasks.errors import GridbenchError
from tasks.measure import FAILURES
from tasks.publish import write_files
from tasks.store import Store
from workloads.harness.record import Verdict

LISTED = 10  # failed repeats that are named before the rest is counted


def comparison_of(store: Store) -> Comparison:
    """The comparison of a run's records at the prices of its plan.

    Raises:
        GridbenchError: the run has no record.
    """
    records, _ = store.records()
    if not records:
        raise GridbenchError(f"run {store.plan.run} has no records yet; `gridbench resume {store.plan.run}`")
    return compare(records, store.plan.machines, store.plan.baseline)


async def _rescue(store: Store) -> list[str]:
    async with get_client() as client:
        return await collect(client, store, await lane_jobs(client, store.plan.run))


def rebuild(store: Store) -> str:
    """Write the report's files anew; returns the report's path."""
    return str(write_files(store.records()[0], comparison_of(store), store))


def tell(flow_run: FlowRun, results: Path, ui_url: str, console: Console) -> bool:
    """Print the answer, the report's path and the run's page; returns whether every cell was measured."""

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    page = f"{ui_url}/runs/flow-run/{flow_run.id}"
    if flow_run.state is None or not flow_run.state.is_completed():
        _tell_failure(flow_run, results, say)
        say(page)
        return False
    store = Store.open(results, flow_run.name)
    for sentence in comparison_of(store).answer:
        say(f"• {sentence}")
    say(f"\nreport: {store.folder / 'report.html'}\nrun:    {page}")
    records, plan = store.records()[0], store.plan
    failed = [record for record in records if record.verdict in FAILURES]
    for record in failed[:LISTED]:
        say(f"{record.id} {record.verdict.value}: {'; '.join(record.reasons)}")
    if len(failed) > LISTED:
        say(f"and {len(failed) - LISTED} more: gridbench show {flow_run.name}")
    if any(record.verdict is Verdict.CAPACITY for record in failed):
        say(f"what could not be measured can be tried again: gridbench resume {flow_run.name}")
    return not failed and len(records) == len(plan.cells) * plan.repeats


def _tell_failure(flow_run: FlowRun, results: Path, say: Callable[[str], None]) -> None:
    state = flow_run.state
    say(f"the run ended {state.name}: {state.message or ''}" if state else "the run has no state")
    if not (results / flow_run.name / "plan.json").exists():
        return
    try:
        for sentence in asyncio.run(_rescue(Store.open(results, flow_run.name))):
            say(sentence)
    except LOST_TOUCH as error:
        say(f"the Prefect API does not answer, its records come with the next resume: {error}")
    say(f"what was measured is kept: gridbench resume {flow_run.name}")
