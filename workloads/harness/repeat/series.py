"""Series of repeats on one box: their order, and their measurement in turn."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.control import run_in_turns, run_with_control
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.forks import ForkServers
from workloads.harness.repeat.limits import tells_of_others, too_large, too_much_for
from workloads.harness.repeat.local_limits import limits_here
from workloads.harness.repeat.runs import COMMAND, Say, run_repeat
from workloads.harness.repeat.script_runs import run_script, with_hint
from workloads.harness.repeat.suite import Suite

Other = Callable[[int], Record]  # measures another version of a repeat; its argument is the box's lock


def shuffled(cases: Sequence[Case], base: Repeat, repeats: int, profile: bool = False) -> list[Repeat]:
    """Order repeats in rounds of all cases, each shuffled by the seed of `base`.

    So a case's repeats are spread over the run, and their scatter includes the box's slow changes. Inputs are
    drawn from the seed plus the repeat's number.
    """
    draw = random.Random(base.seed)
    rounds = (draw.sample(cases, len(cases)) for _ in range(repeats))
    todo = [(case, number) for number, of_round in enumerate(rounds, start=1) for case in of_round]
    return [
        replace(
            base,
            case=case,
            repeat=number,
            order=order,
            seed=base.seed + number,
            profile=base.profile or (profile and number == 1),
        )
        for order, (case, number) in enumerate(todo)
    ]


def measure_suite(suite: Suite, base: Repeat, repeats: int, say: Say, keep: Callable[[Record], None]) -> None:
    """Measure a suite on this box; `keep` gets each record at once.

    `base` has the run's settings; the suite adds those that it leaves open.
    """
    base = replace(
        base, quick=base.quick or suite.quick, brief=base.brief or suite.brief, timeout_s=suite.timeout_s
    )
    suite = suite.on({base.device})
    entries = {entry.case: entry for entry in suite.entries}
    todo = [
        replace(
            repeat,
            threads=base.threads or entries[repeat.case].threads,
            soak_s=base.soak_s or entries[repeat.case].soak_s,
            script=entries[repeat.case].script,
        )
        for repeat in shuffled(suite.cases, base, repeats, suite.profile)
    ]
    skips = {repeat.case.id: reason for repeat in todo if (reason := _too_large_here(repeat))}
    for case, reason in skips.items():
        say(f"{case} will be skipped: {reason}")
    measure_repeats(todo, say, keep)


def measure_repeats(todo: Sequence[Repeat], say: Say, keep: Callable[[Record], None]) -> None:
    ended: list[Record] = []
    with ForkServers.of(todo, say) as forks:
        for repeat in todo:
            say(f"[{repeat.order + 1}/{len(todo)}] {repeat.id}")
            record = measure_or_skip(repeat, ended, say, forks=forks)
            if tells_of_others(record):
                ended.append(record)
            keep(record)


def measure_or_skip(
    repeat: Repeat,
    ended: Sequence[Record],
    say: Say,
    command: Sequence[str] = COMMAND,
    reference: Sequence[str] = (),
    forks: ForkServers | None = None,
    other: Other | None = None,
) -> Record:
    """Measure a repeat alone on the box, or skip one that cannot succeed.

    Args:
        ended: earlier records; those that `tells_of_others` selects are enough.
        reference: command of a frozen environment, in which a control is measured next to it. Not for a
            script: its code is the same in both.
        other: measures another version next to it, with the box's lock.
        forks: the series' servers. A script, and a repeat with a control, are fresh processes.
    """
    ended = [record for record in ended if record.hardware == repeat.hardware]  # others take turns with it
    if reason := too_much_for(repeat.case, ended, repeat.timeout_s) or _too_large_here(repeat):
        return repeat.failed(Verdict.SKIPPED, reason)
    repeat = replace(repeat, layout=layout_of(repeat, ended))
    with whole_box(say) as lock:
        if not repeat.script and not reference and not other:
            return run_repeat(repeat, lock, say, command, start=forks.start if forks else None)
        if forks:
            forks.close()
        if other:
            own = run_script if repeat.script else run_repeat
            record = run_in_turns(repeat, lambda: own(repeat, lock, say, command), lambda: other(lock))
            return with_hint(record, ended)
        if repeat.script:
            return with_hint(run_script(repeat, lock, say, command), ended)
        return run_with_control(repeat, lock, say, reference, command)


def layout_of(repeat: Repeat, ended: Sequence[Record]) -> str | None:
    """Return the layout that an earlier repeat of the cell found, so that all repeats measure the same."""
    earlier = (record for record in ended if record.cell == repeat.cell and record.layout_trials_s)
    return repeat.layout or next((record.layout for record in earlier), None)


def _too_large_here(repeat: Repeat) -> str | None:
    limits = limits_here(repeat.hardware, repeat.device, repeat.threads)
    return too_large(repeat.case, limits, repeat.timeout_s, repeat.script)
