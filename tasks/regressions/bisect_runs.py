"""The stored runs of a search through versions, and the round of each."""

from collections import Counter
from collections.abc import Mapping

from tasks.findings.compare import judged_cells
from tasks.regressions.baseline import LEAST_RERUNS
from tasks.regressions.bisect import NextMeasurement, Round
from tasks.regressions.change import Sample, sample
from tasks.results.repeats import RecordKey, Repeats, latest, standing
from tasks.store.address import ResultsAddress
from tasks.store.bucket import find
from tasks.store.store import Store
from tasks.store.sync import bring
from workloads.harness.records.record import OF_THE_MACHINE, Verdict


def runs_of(results: ResultsAddress, search: str) -> list[Store]:
    """Return the stored runs of a search, oldest first, from a folder or a bucket.

    Raises:
        GridbenchError: the bucket cannot be read.
    """
    from tasks.regressions.series_reader import confirmations  # imports pandas, which is slow

    names = confirmations(bring(results, ())).get(search, [])
    return [find(results, name) for name in names]


def round_of(store: Store, step: NextMeasurement) -> Round:
    """Return the round that a run has measured.

    Raises:
        GridbenchError: the run cannot be read.
    """
    plan, (records, _) = store.plan, store.records()
    cells, refusals = judged_cells(latest(records), plan.machines)
    cell = next((cell for cell in cells if cell.cell in plan.cells), None)
    times = sample(cell) if cell else Sample(())
    if cell is None or len(times.seconds) >= LEAST_RERUNS:
        reason = "" if cell else "it has no record"
        return Round(step.version, times, reason, check=step.check)
    verdicts = Counter(standing(record, refusals)[0] for record in cell.records)
    worst = max((v for v in verdicts if v is not Verdict.OK), key=lambda v: (verdicts[v], v), default=None)
    return Round(
        step.version,
        times,
        _reason(cell, worst, refusals),
        broken=worst is not None and worst not in OF_THE_MACHINE,  # else the version can be measured again
        check=step.check,
    )


def complete(store: Store) -> bool:
    """Return whether a run has a record of each of its repeats, whatever their verdicts."""
    plan = store.plan
    return len(store.records()[0]) >= len(plan.cells) * plan.repeats


def _reason(cell: Repeats, worst: Verdict | None, refusals: Mapping[RecordKey, tuple[str, ...]]) -> str:
    ok = f"{len(cell.usable)} of {len(cell.records)} processes are valid"
    if worst is None:
        return ok
    judged = [standing(record, refusals) for record in cell.records]
    reasons = dict.fromkeys(reason for verdict, whys in judged if verdict is worst for reason in whys)
    details = "; ".join([*reasons][:2])
    return f"{worst.value}{': ' if details else ''}{details} ({ok})"
