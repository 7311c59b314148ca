"""Runs and rounds of a search through versions."""

from collections import Counter
from collections.abc import Sequence

from tasks.findings.compare import judged_cells
from tasks.regressions.baseline import LEAST_RERUNS
from tasks.regressions.bisect import NextMeasurement, Round
from tasks.regressions.change import Sample, sample
from tasks.results.metrics import viewed
from tasks.results.repeats import latest, standing
from tasks.store.address import ResultsAddress
from tasks.store.bucket import find
from tasks.store.store import Store
from tasks.store.sync import bring
from workloads.harness.records.parts import Control
from workloads.harness.records.record import OF_THE_MACHINE, Verdict

Judged = tuple[Verdict, tuple[str, ...]]  # of a process, with the reasons


def runs_of(results: ResultsAddress, search: str) -> list[Store]:
    """Return them oldest first.

    Raises:
        GridbenchError: the bucket cannot be read.
    """
    from tasks.regressions.series_reader import confirmations  # slow: imports pandas

    names = confirmations(bring(results, ())).get(search, [])
    return [find(results, name) for name in names]


def rounds_of(store: Store, step: NextMeasurement, case: str = "") -> tuple[Round, ...]:
    """Return a run's rounds: of the version that took turns, then its own.

    By the metric in a case's id, or by time.

    Raises:
        GridbenchError: the run cannot be read.
    """
    plan, (records, _) = store.plan, store.records()
    cells, refusals = judged_cells(latest(records), plan.machines)
    cell = next((cell for cell in cells if cell.cell in plan.cells), None)
    if cell is None:
        return tuple(
            Round(version, Sample(()), "it has no record", check=step.check)
            for version in (step.partner, step.version)
            if version is not None
        )
    view = next((each for each in viewed(cell) if each.cell.case.id == case), cell)
    times, own = sample(view), [standing(record, refusals) for record in cell.records]
    if step.partner is None:
        return (_round(step, step.version, times, own, len(times.seconds)),)
    others = [(_verdict(c), c.reasons) for record in cell.records if (c := record.control)]
    other = _round(step, step.partner, Sample(times.controls), others, len(times.controls))
    if len(times.controlled) < LEAST_RERUNS:
        times = Sample(())
    mine = _round(step, step.version, times, own, len(times.seconds))
    return other, mine


def _verdict(control: Control) -> Verdict:
    return Verdict(control.verdict) if control.verdict in set(Verdict) else Verdict.CRASHED


def _round(step: NextMeasurement, version: int, times: Sample, judged: Sequence[Judged], valid: int) -> Round:
    if valid >= LEAST_RERUNS:
        return Round(version, times, check=step.check)
    verdicts = Counter(verdict for verdict, _ in judged)
    worst = max((v for v in verdicts if v is not Verdict.OK), key=lambda v: (verdicts[v], v), default=None)
    return Round(
        version,
        times,
        _reason(judged, worst, valid),
        broken=worst is not None and worst not in OF_THE_MACHINE,  # else the version can be measured again
        check=step.check,
    )


def complete(store: Store) -> bool:
    """Return whether each repeat has a record, whatever its verdict."""
    plan = store.plan
    return len(store.records()[0]) >= len(plan.cells) * plan.repeats


def _reason(judged: Sequence[Judged], worst: Verdict | None, valid: int) -> str:
    ok = f"{valid} of {len(judged)} processes are valid"
    if worst is None:
        return ok
    reasons = dict.fromkeys(reason for verdict, whys in judged if verdict is worst for reason in whys)
    details = "; ".join([*reasons][:2])
    return f"{worst.value}{': ' if details else ''}{details} ({ok})"
