"""What is said at the end of a run."""

import asyncio
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from rich.console import Console

from tasks.aftermath import collect
from tasks.analysis.compare import compare
from tasks.analysis.model import Comparison
from tasks.errors import GridbenchError
from tasks.measure import FAILURES
from tasks.publish import write_files
from tasks.store import Store


def comparison_of(store: Store) -> Comparison:
    """The comparison of a run's records at the prices of its plan.

    Raises:
        GridbenchError: the run has no record.
    """
    records, _ = store.records()
    if not records:
        raise GridbenchError(f"run {store.plan.run} has no records yet; `gridbench resume {store.plan.run}`")
    return compare(records, [machine.machine() for machine in store.plan.hardware], store.plan.baseline)


async def _rescue(store: Store) -> list[str]:
    async with get_client() as client:
        return await collect(client, store)


def rebuild(store: Store) -> str:
    """Write the report's files anew; returns the report's path."""
    return str(write_files(store.records()[0], comparison_of(store), store))


def tell(flow_run: FlowRun, results: Path, ui_url: str, console: Console) -> bool:
    """Print the answer, the report's path and the run's page; returns whether every cell was measured."""
    state = flow_run.state
    page = f"{ui_url}/runs/flow-run/{flow_run.id}"
    if state is None or not state.is_completed():
        name, words = (state.name, state.message or "") if state else ("unknown", "")
        console.print(f"the run ended {name}: {words}\n{page}", soft_wrap=True, highlight=False)
        if (results / flow_run.name / "plan.json").exists():
            for sentence in asyncio.run(_rescue(Store.open(results, flow_run.name))):
                console.print(sentence, soft_wrap=True, highlight=False)
            console.print(f"what was measured is kept: gridbench resume {flow_run.name}", highlight=False)
        return False
    store = Store.open(results, flow_run.name)
    for sentence in comparison_of(store).answer:
        console.print(f"• {sentence}", soft_wrap=True, highlight=False)
    console.print(
        f"\nreport: {store.folder / 'report.html'}\nrun:    {page}", soft_wrap=True, highlight=False
    )
    failed = [record for record in store.records()[0] if record.verdict in FAILURES]
    for record in failed[:10]:
        text = f"{record.cell.id}#{record.repeat} {record.verdict.value}: {'; '.join(record.reasons)}"
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    return not failed
