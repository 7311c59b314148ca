"""The steps of a proof, in turn within its time: a failure is a row, not an end."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.table import FAIL, NOT_RUN, Row


class Step(NamedTuple):
    """A part of a proof.

    Attributes:
        name: begins with the stage; unique.
        needs_s: seconds that must be left for it to begin.
        run: yields its rows as they come.
        essential: whether a proof needs it; time can leave out others.
    """

    name: str
    needs_s: float
    run: Callable[[Bench], Iterable[Row]]
    essential: bool = True


def taken(steps: Iterable[Step], bench: Bench) -> Iterator[Row]:
    """Take the steps in order; each ends in at least one row, also if it did not run."""
    for step in steps:
        for row in (row._replace(essential=step.essential) for row in _rows(step, bench)):
            spoilt = (
                row.state == FAIL and bench.stopped
            )  # its processes were killed: it says nothing of the card
            yield row._replace(state=NOT_RUN, text=f"{bench.stopped}: {row.text}") if spoilt else row


def _rows(step: Step, bench: Bench) -> Iterator[Row]:
    if why := _hindrance(step, bench):
        yield Row(step.name, step.name, NOT_RUN, why)
        return
    count, begun = 0, time.monotonic()
    try:
        for row in step.run(bench):
            count += 1
            yield row
    except Exception as error:
        count += 1
        text = f"{type(error).__name__}: {error}"[:300].replace("\n", " ")
        yield Row(step.name, step.name, FAIL, f"{text} ({time.monotonic() - begun:.0f} s)")
    if not count:
        yield Row(step.name, step.name, FAIL, "it looked at nothing")


def _hindrance(step: Step, bench: Bench) -> str:
    left_s = bench.left_s()
    if bench.stopped or left_s >= step.needs_s:
        return bench.stopped
    return f"{max(left_s, 0):.0f} s were left, it takes about {step.needs_s:.0f}"
