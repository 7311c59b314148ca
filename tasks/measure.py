"""Measure cells on lanes."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from prefect import State, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed

from tasks.dispatch.dispatcher import Dispatcher
from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.results.format import format_count, format_plus_minus
from tasks.results.metrics import mean_text
from tasks.results.summaries import over_repeats
from workloads.harness.records.case import Cell
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record, Verdict

NO_TIME = "no valid time"
NOTHING = "NothingMeasured"  # name of the state of a complete run without a time


@task(name="measure", task_run_name="{cell.id}", cache_policy=NO_CACHE, persist_result=False)
async def measure(cell: Cell, lanes: Dispatcher) -> State[None]:
    """Have `cell` measured; the task's state is the verdict on its records."""
    try:
        records = await lanes.records_of(cell)
        if records[0].verdict is Verdict.SKIPPED and cell.case in lanes.plan.skipped_on(cell.hardware):
            return Completed(name="Skipped", message=records[0].reasons[0])  # as planned, not a failure
        return cell_state(records)
    except GridbenchError as error:  # the whole run ends with it: a traceback per cell adds nothing
        return Failed(message=str(error))


async def measure_all(cells: Sequence[Cell], lanes: Dispatcher, say: Callable[[str], None]) -> None:
    """Have cells measured, each shown by a task run.

    Task runs open lane by lane, a few at a time, in the order in which cells will end. If the API's plan
    limits them, some might stay closed, unless a minute is enough for them.
    """
    lanes.request(cells)
    todo: dict[str, deque[Cell]] = defaultdict(deque)
    for cell in sorted(cells, key=lanes.last_order):
        todo[cell.hardware].append(cell)
    turns = Turns(lanes.pace.cells_per_minute, lanes.pace.cells_at_first)
    at_once = max(1, lanes.pace.open_cells // max(len(todo), 1))

    def needed() -> bool:
        left = sum(map(len, todo.values()))
        return left > 0 and (not lanes.idle or left <= (lanes.pace.cells_per_minute or left))

    queues = [queue for queue in todo.values() for _ in range(min(at_once, len(queue)))]
    await asyncio.gather(*(_open(queue, lanes, turns, needed) for queue in queues))
    if left := sum(map(len, todo.values())):
        say(f"{left} cells have no separate task run: the API's plan allows {turns.per_minute:g} a minute")


class Turns:
    """Some turns at once, then a number per minute; all at once without a limit."""

    def __init__(self, per_minute: float | None, at_first: int = 0) -> None:
        self.per_minute = per_minute
        self._at_first = at_first
        self._next = time.monotonic()

    async def take(self, needed: Callable[[], bool]) -> bool:
        """Return False once it is not needed any more."""
        if self.per_minute is None:
            return True
        if self._at_first:
            self._at_first -= 1
            return True
        at = self._next = max(self._next, time.monotonic()) + 60 / self.per_minute
        while needed() and (wait_s := at - time.monotonic()) > 0:
            await asyncio.sleep(min(wait_s, 1.0))
        return needed()


async def _open(queue: deque[Cell], lanes: Dispatcher, turns: Turns, needed: Callable[[], bool]) -> None:
    while queue and await turns.take(needed):
        if queue:
            cell = queue.popleft()
            task_run: Any = measure(cell, lanes, return_state=True)
            await task_run


def nothing_measured(records: Sequence[Record], plan: Plan) -> str:
    """Return a sentence if every cell failed, unless all were planned skips; else empty."""
    failed = [r for r in records if r.verdict.is_failure and r.case not in plan.skipped_on(r.hardware)]
    if not failed or not all(record.verdict.is_failure for record in records):
        return ""
    numbers = Counter(record.verdict.value for record in failed)
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in numbers.most_common())
    return f"nothing was measured: {verdicts}; {failed[0].id}: {'; '.join(failed[0].reasons)}"


def cell_state(records: list[Record]) -> State[None]:
    """Name the worst verdict, with time and reasons."""
    worst = max(records, key=lambda record: (record.verdict.is_failure, not record.ok))
    reasons = dict.fromkeys(reason for record in records for reason in record.reasons)
    time = [] if worst.verdict.is_failure else _time_text(records)
    message = "; ".join([*time, *reasons]) or format_count(len(records), "repeat")
    name = "".join(word.capitalize() for word in worst.verdict.split("_"))
    return (Failed if worst.verdict.is_failure else Completed)(name=name, message=message)


def _time_text(records: Sequence[Record]) -> list[str]:
    if reported := [record.metrics[0] for record in records if counts(record) and record.metrics]:
        return [f"{mean_text(reported)}, {format_count(len(reported), 'repeat')}"]
    if all(record.compute_s is None for record in records):
        return []
    times_s = [record.compute_s for record in records if counts(record) and record.compute_s]
    time = over_repeats(times_s)
    return [f"{format_plus_minus(time)}, {format_count(len(times_s), 'repeat')}" if time else NO_TIME]
