"""Measure one cell: hand it to the lane of its hardware, and wait for its records."""

from prefect import State, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed

from tasks.dispatch.dispatcher import Dispatcher
from tasks.errors import GridbenchError
from workloads.harness.records.case import Cell
from workloads.harness.records.record import Record, Verdict

FAILURES = frozenset(
    {
        Verdict.WRONG,
        Verdict.IMPOSSIBLE,
        Verdict.OUT_OF_MEMORY,
        Verdict.TIMEOUT,
        Verdict.UNSUPPORTED,
        Verdict.PREEMPTED,
        Verdict.CAPACITY,
        Verdict.CRASHED,
        Verdict.SKIPPED,
    }
)


@task(name="measure", cache_policy=NO_CACHE, persist_result=False)
async def measure(cell: Cell, lanes: Dispatcher) -> State[None]:
    """Have `cell` measured; the task's state says what its records are worth."""
    try:
        records = await lanes.records_of(cell)
        if records[0].verdict is Verdict.SKIPPED and cell.case in lanes.plan.skipped_on(cell.hardware):
            return Completed(name="Skipped", message=records[0].reasons[0])  # as planned: nothing went wrong
        return cell_state(records)
    except GridbenchError as error:  # the whole run ends with it: a traceback a cell would say no more
        return Failed(message=str(error))


def cell_state(records: list[Record]) -> State[None]:
    """Completed or Failed, named by the worst of the records' verdicts, with the reasons as its message."""
    worst = max(records, key=lambda record: (record.verdict in FAILURES, not record.ok))
    reasons = dict.fromkeys(reason for record in records for reason in record.reasons)
    message = "; ".join(reasons) or f"{len(records)} repeats"
    name = "".join(word.capitalize() for word in worst.verdict.split("_"))
    return (Failed if worst.verdict in FAILURES else Completed)(name=name, message=message)
