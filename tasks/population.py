"""Records of other machines in the results store."""

from collections.abc import Iterator

from tasks.errors import GridbenchError
from tasks.findings.compare import judged_cells
from tasks.planning.plan import Plan
from tasks.results.repeats import key
from tasks.store.bucket import Bucket
from tasks.store.store import RECORDS, Store, runs
from tasks.store.sync import fetch_history
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record


def population_of(store: Store) -> tuple[list[Record] | None, list[str]]:
    """Return valid records of other acceptance runs, and a sentence for each unreadable one.

    None if the suite does not ask which machines to keep.
    """
    plan, results = store.plan, store.folder.parent
    if not plan.acceptance:
        return None, []
    records: list[Record] = []
    problems: list[str] = []
    try:
        if isinstance(store.bucket, Bucket):
            fetch_history(store.bucket, results)
    except GridbenchError as error:
        problems.append(f"Siblings are those of this folder alone: {error}.")
    for name in sorted(runs(results)):
        if name == store.folder.name:
            continue
        try:
            records += _counting(Store(results / name, store.bucket), plan)
        except GridbenchError as error:
            problems.append(f"Not among the siblings: {error}.")
    return records, problems


def _counting(other: Store, like: Plan) -> Iterator[Record]:
    plan, cases = other.plan, {planned.case for planned in like.cases}
    if not plan.acceptance or plan.quick != like.quick or plan.run == like.run:
        return
    if isinstance(other.bucket, Bucket) and not (other.folder / RECORDS).is_dir():
        other.bucket.fetch(plan.run, other.folder.parent)
    records = other.records()[0]
    refusals = judged_cells(records, plan.machines)[1]
    yield from (r for r in records if r.case in cases and counts(r) and key(r) not in refusals)
