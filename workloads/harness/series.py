"""Many repeats on one box: their order, and one after another."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from workloads.harness.case import Case
from workloads.harness.exclusive import whole_box
from workloads.harness.record import Record, Verdict
from workloads.harness.runs import COMMAND, Repeat, Say, run_repeat
from workloads.harness.suite import Suite


def shuffled(
    cases: Sequence[Case], base: Repeat, repeats: int, seed: int, quick: bool, timeout_s: float
) -> list[Repeat]:
    """Every repeat of every case, shuffled from `seed`, so that no case always comes first or last.

    The order is a result: it is stored in each repeat. Inputs are drawn from `seed` plus the repeat's number.
    """
    todo = [(case, number) for case in cases for number in range(1, repeats + 1)]
    random.Random(seed).shuffle(todo)
    return [
        replace(
            base, case=case, repeat=number, order=order, seed=seed + number, quick=quick, timeout_s=timeout_s
        )
        for order, (case, number) in enumerate(todo)
    ]


def measure_suite(
    suite: Suite, base: Repeat, repeats: int, seed: int, quick: bool, say: Say, keep: Callable[[Record], None]
) -> None:
    """Measure a suite on this box, one fresh process after another; `keep` gets each record as it comes."""
    todo = shuffled(suite.cases, base, repeats, seed, quick or suite.quick, suite.timeout_s)
    ended: list[Record] = []
    for repeat in todo:
        say(f"[{repeat.order + 1}/{len(todo)}] {repeat.id}")
        record = measure_or_skip(repeat, ended, say)
        ended.append(record)
        keep(record)


def measure_or_skip(
    repeat: Repeat, ended: Sequence[Record], say: Say, command: Sequence[str] = COMMAND
) -> Record:
    """Measure a repeat alone on the box, unless an earlier record shows that it can't fit in memory."""
    for record in ended:
        if record.verdict is Verdict.OUT_OF_MEMORY and at_least(repeat.case, record.case):
            return repeat.failed(
                Verdict.SKIPPED, f"{record.case.id} ran out of memory, and this is no smaller"
            )
    with whole_box(say) as lock:
        return run_repeat(repeat, lock, say, command)


def at_least(case: Case, other: Case) -> bool:
    """Whether `case` is `other` or the same workload and precision with no parameter smaller."""
    if (case.workload, case.precision) != (other.workload, other.precision):
        return False
    return all(value >= other.params[name] for name, value in case.size)
