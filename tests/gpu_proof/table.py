"""Rows of a proof: subject, result and figures."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

OK, FAIL, NOT_RUN, SHOWN = "ok", "FAIL", "not run", "shown"
LONGEST = (
    220  # characters of a row in the table that is printed last: its reader might see only a few thousand
)


class Row(NamedTuple):
    """One checked item. `shown` is a figure without an expectation.

    A proof holds without rows that are not `essential`, unless they fail.
    """

    step: str
    name: str
    state: str
    text: str
    essential: bool = True

    @property
    def line(self) -> str:
        return f"{self.state:8}{self.name}: {self.text}"


def holds(step: str, name: str, truth: object, text: str) -> Row:
    return Row(step, name, OK if truth else FAIL, text)


def within(step: str, name: str, value: float | None, low: float, high: float, text: str = "") -> Row:
    """Return whether a figure is between two others; a missing one is not."""
    shown = "nothing" if value is None else f"{value:.4g}"
    return holds(
        step, name, value is not None and low <= value <= high, f"{shown} in [{low:.3g}, {high:.3g}] {text}"
    )


def all_hold(rows: Iterable[Row]) -> bool:
    states = {row.state for row in rows if row.essential or row.state != NOT_RUN}
    return OK in states and not states & {FAIL, NOT_RUN}


def counts(rows: Iterable[Row]) -> dict[str, int]:
    counted = Counter(row.state for row in rows)
    return {state: counted[state] for state in (OK, FAIL, NOT_RUN, SHOWN)}


def summary(rows: list[Row], seconds: float) -> str:
    stages: dict[str, list[Row]] = {}
    for row in rows:
        stages.setdefault(row.step.partition(" ")[0], []).append(row)
    head = f"{'stage':12}{OK:>6}{FAIL:>6}{NOT_RUN:>9}{SHOWN:>7}"
    lines = [head, *(_stage(name, part) for name, part in stages.items()), ""]
    lines += [row.line[:LONGEST] for row in rows if row.state in (FAIL, NOT_RUN)]
    total = counts(rows)
    last = f"{total[OK]} of {total[OK] + total[FAIL] + total[NOT_RUN]} hold, {total[FAIL]} fail, {total[NOT_RUN]} were not run; {seconds:.0f} s"
    return "\n".join([*lines, last])


def _stage(name: str, rows: list[Row]) -> str:
    ok, fail, not_run, shown = counts(rows).values()
    return f"{name:12}{ok:>6}{fail:>6}{not_run:>9}{shown:>7}"
