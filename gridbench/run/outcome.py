"""The end of a run in the terminal."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from rich.console import Console

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.dispatch.flow_runs import collect, lane_jobs
from tasks.errors import GridbenchError
from tasks.findings.acceptance.acceptance import EXIT_CODES, Acceptance
from tasks.findings.acceptance.advice import Advice
from tasks.findings.confirmation import EXIT_CODES as CONFIRMATION_CODES
from tasks.findings.confirmation import Confirmation, Confirmed
from tasks.findings.outlook import Outlook
from tasks.gather import judged
from tasks.measure import NOTHING
from tasks.planning.plan import Plan, skip_lines
from tasks.planning.reprice import at_new_prices
from tasks.publish import write_files
from tasks.results.comparison import Caveat, Comparison
from tasks.results.format import format_count
from tasks.store.store import Store
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record, Verdict

NOT_MEASURED = 1  # exit code of a run that lacks a cell
LISTED = 10  # printed sentences on failures; further ones are counted


def comparison_of(store: Store, prices: str = "plan") -> Comparison:
    if prices not in ("plan", "now"):
        raise GridbenchError(f"--prices {prices!r} must be plan or now")
    records, odd = store.records()
    if not records:
        none = f"none of its {len(odd)} records can be read" if odd else "it has no records yet"
        raise GridbenchError(f"run {store.plan.run}: {none}; measure it: gridbench resume {store.plan.run}")
    if prices == "plan":
        return judged(records, store)
    machines, changes = at_new_prices(store.plan)
    found = judged(records, store, machines)
    return replace(found, caveats=(*(Caveat("prices of today", text) for text in changes), *found.caveats))


async def _rescue(store: Store) -> list[str]:
    async with get_client() as client:
        return await collect(client, store, await lane_jobs(client, store.plan.run))


def rebuild(store: Store, prices: str = "plan") -> str:
    return str(write_files(store.records()[0], comparison_of(store, prices), store))


def went_to_its_end(flow_run: FlowRun) -> bool:
    state = flow_run.state
    return state is not None and (state.is_completed() or state.name == NOTHING)


def tell(flow_run: FlowRun, results: Path, ui_url: str | None, console: Console) -> int:
    """Print the answer, the report's path and the run's page; return the command's exit code.

    0: every cell was measured and at least one repeat counts; else 1. If the run asks which machines to keep,
    4: return at least one, or 3: every cell was measured and one machine is undecided. A finished
    confirmation has its verdict's code, but 3 if it is confirmed and not every cell was measured. Without
    `ui_url` the server ends with the command.
    """

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    lasting = f"{ui_url}/runs/flow-run/{flow_run.id}"
    page = lasting if ui_url else f"{flow_run.name}; `gridbench up` shows it in the Prefect UI"
    if not went_to_its_end(flow_run):
        _tell_failure(flow_run, results, say)
        say(page)
        return NOT_MEASURED
    store = Store.open(results, flow_run.name)
    comparison, plan = comparison_of(store), store.plan
    report = store.folder / "report.html"
    for line in [*comparison.answer, *_confirmed(comparison), *_predicted(comparison, plan)]:
        say(line)
    if comparison.caveats:
        say(f"{comparison.caveat_line} Reasons: {report}#caveats")
    say(f"\nreport: {report}\nrun:    {page}")
    records = store.records()[0]
    failed = [r for r in records if r.verdict.is_failure and r.case not in plan.skipped_on(r.hardware)]
    for sentence in skip_lines(plan)[:LISTED]:
        say(sentence)
    _tell_failed(failed, flow_run.name, say)
    if any(record.verdict is Verdict.CAPACITY for record in failed):
        say(f"To retry the cells without capacity: gridbench resume {flow_run.name}")
    tried = [record for record in records if record.case not in plan.skipped_on(record.hardware)]
    planned = set(plan.cells_begun(tried))
    measured = sum(record.cell in planned for record in records)
    refused = bool(tried) and not any(map(counts, tried))
    if refused and not failed:
        verdicts = ", ".join(dict.fromkeys(record.verdict.value for record in tried))
        count = format_count(len(tried), "repeat")
        say(f"No result counts ({count}: {verdicts}): measure them again on an idle machine.")
    is_complete = not failed and measured == len(planned) * plan.repeats
    return _exit_code(comparison, is_complete, refused)


def _tell_failed(failed: list[Record], name: str, say: Callable[[str], None]) -> None:
    alike: dict[str, list[str]] = {}
    for record in failed:
        alike.setdefault(f"{record.verdict.value}: {'; '.join(record.reasons)}", []).append(record.id)
    for sentence, ids in islice(alike.items(), LISTED):
        further = f" and {format_count(len(ids) - 1, 'more repeat')}:" if len(ids) > 1 else ""
        say(f"{ids[0]}{further} {sentence}")
    if len(alike) > LISTED or len(failed) > len(alike):
        say(f"To list all {format_count(len(failed), 'failed repeat')}: gridbench show {name}")


def _confirmed(comparison: Comparison) -> tuple[str, ...]:
    confirmation = comparison.finding(Confirmation)
    return confirmation.details() if confirmation else ()


def _predicted(comparison: Comparison, plan: Plan) -> tuple[str, ...]:
    outlook = comparison.finding(Outlook)
    if not plan.shortlist or outlook is None or not outlook.rows:
        return ()
    predicted = format_count(len({row.hardware for row in outlook.rows}), "machine")
    return (f"Predicted, not measured: {predicted}, listed in the report.", *outlook.standing)


def _exit_code(comparison: Comparison, is_complete: bool, refused: bool) -> int:
    confirmation, acceptance = comparison.finding(Confirmation), comparison.finding(Acceptance)
    if confirmation and confirmation.run:
        open_code = CONFIRMATION_CODES[Confirmed.OPEN]
        return confirmation.exit_code or (0 if is_complete else open_code)
    advised = acceptance.exit_code if acceptance else 0
    code = advised if is_complete or advised == EXIT_CODES[Advice.RETURN] else NOT_MEASURED
    return code or (NOT_MEASURED if refused else 0)


def _tell_failure(flow_run: FlowRun, results: Path, say: Callable[[str], None]) -> None:
    state = flow_run.state
    say(f"The run ended {state.name}: {state.message or ''}" if state else "The run has no state.")
    if not (results / flow_run.name / "plan.json").exists():
        return
    store = Store.open(results, flow_run.name)
    try:
        for sentence in asyncio.run(_rescue(store)):
            say(sentence)
    except LOST_TOUCH as error:
        say(f"The Prefect API does not answer ({error}); `gridbench resume` collects the records.")
    records, _ = store.records()
    measured = any(not record.verdict.is_failure for record in records)
    what = "Measured repeats are kept. To continue" if measured else "Nothing was measured. To try again"
    say(f"{what}: gridbench resume {flow_run.name}")
