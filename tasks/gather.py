"""From the results store to a comparison."""

from collections.abc import Sequence
from dataclasses import replace

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from tasks.confirmed_run import confirmed_answer
from tasks.dispatch.job_notes import jobs_of
from tasks.earlier_sessions import sessions_of
from tasks.findings.compare import compare as compare_records
from tasks.plausibility.remarks import partial, remarks
from tasks.population import population_of
from tasks.prediction.kept import kept, kept_in
from tasks.results.comparison import Caveat, Comparison
from tasks.results.model import Machine
from tasks.store.store import Store
from workloads.harness.records.record import Record


@task(cache_policy=NO_CACHE, persist_result=False)
def gather(store: Store) -> list[Record]:
    """Return every record of the run from the store; log unreadable ones."""
    records, odd = store.records()
    for sentence in odd:
        get_run_logger().warning(sentence)
    return records


@task(cache_policy=NO_CACHE, persist_result=False)
def compare(records: list[Record], store: Store) -> Comparison:
    """Judge, summarise and pair the records, at the prices of the run's plan."""
    return judged(records, store)


def judged(records: Sequence[Record], store: Store, machines: Sequence[Machine] = ()) -> Comparison:
    """Return the comparison, by default at the plan's prices.

    Oddities and unreadable records are caveats. A run that asks which machines to keep is compared with all
    such runs of the store, also later ones.
    """
    plan = store.plan
    population, problems = population_of(store)
    earlier = confirmed_answer(store)
    more = [earlier.problem] if earlier.problem else []
    cases = {planned.case for planned in plan.cases}
    found = compare_records(
        records,
        machines or plan.machines,
        plan.baseline,
        cases,
        jobs_of(store),
        population,
        sessions_of(store, records),
        earlier,
        kept(store.folder.parent),
        kept_in(store.folder),
    )
    names = {machine.name for machine in plan.hardware}
    further = [record.cell for record in records if plan.break_even and record.hardware in names]
    odd = remarks(records, plan.run, [*plan.cells, *further], plan.created_at, plan.repeats)
    reasons = (*partial(found.summaries), *odd, *store.unreadable(records), *problems, *more)
    return replace(found, caveats=(*found.caveats, *(Caveat("odd records", reason) for reason in reasons)))
