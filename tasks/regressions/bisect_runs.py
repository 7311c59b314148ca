"""The runs of a search through versions: which of them are kept, and what each has measured."""

from collections import Counter
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.findings.compare import judged_cells
from tasks.regressions.baseline import LEAST_RERUNS
from tasks.regressions.bisect import Measure, Round
from tasks.regressions.shifts import Sample, sample
from tasks.results.repeats import Repeats, latest, standing
from tasks.store.bucket import find
from tasks.store.store import Store, runs
from tasks.store.sync import bring
from workloads.harness.records.record import Verdict

# Verdicts that are the machine's fault or nobody's: the version may be measured again.
AGAIN = frozenset(
    {
        Verdict.NOISY,
        Verdict.UNSTEADY,
        Verdict.IMPRECISE,
        Verdict.THROTTLED,
        Verdict.SHARED,
        Verdict.PREEMPTED,
        Verdict.CAPACITY,
    }
)


def runs_of(results: Path, search: str) -> list[Store]:
    """The runs that are kept of a search, oldest first, from a folder or a bucket.

    Raises:
        GridbenchError: the bucket can't be read.
    """
    folder, found = bring(results, ()), []
    for name in runs(folder):
        try:
            plan = Store(folder / name).plan
        except GridbenchError:  # of some other run: it says so wherever that one is asked for
            continue
        if plan.night and plan.night.confirms == search:
            found.append((plan.created_at, name))
    return [find(results, name) for _, name in sorted(found)]


def round_of(store: Store, step: Measure) -> Round:
    """What a run has measured of its version.

    Raises:
        GridbenchError: it can't be read.
    """
    plan, (records, _) = store.plan, store.records()
    cells, refusals = judged_cells(latest(records), plan.machines)
    cell = next((cell for cell in cells if cell.cell in plan.cells), None)
    found = sample(cell) if cell else Sample(())
    if cell is None or len(found.seconds) >= LEAST_RERUNS:
        reason = "" if cell else "no record of it came"
        return Round(step.version, found, reason, check=step.check)
    verdicts = Counter(standing(record, refusals)[0] for record in cell.records)
    worst = max((v for v in verdicts if v is not Verdict.OK), key=lambda v: (verdicts[v], v), default=None)
    return Round(
        step.version,
        found,
        _reason(cell, worst),
        broken=worst is not None and worst not in AGAIN,
        check=step.check,
    )


def complete(store: Store) -> bool:
    """Whether a run has a record of each of its repeats, whatever they are worth."""
    plan = store.plan
    return len(store.records()[0]) >= len(plan.cells) * plan.repeats


def _reason(cell: Repeats, worst: Verdict | None) -> str:
    ok = f"{len(cell.usable)} of {len(cell.records)} processes are ok"
    if worst is None:
        return ok
    words = "; ".join(cell.reasons[:2])
    return f"{worst.value}{': ' if words else ''}{words} ({ok})"
