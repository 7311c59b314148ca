"""From the results store to a comparison."""

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from tasks.analysis.compare import compare as compare_records
from tasks.analysis.model import Comparison
from tasks.store import Store
from workloads.harness.record import Record


@task(cache_policy=NO_CACHE, persist_result=False)
def gather(store: Store) -> list[Record]:
    """Every record of the run, from the store; what can't be read is named in the log."""
    records, odd = store.records()
    for sentence in odd:
        get_run_logger().warning(sentence)
    return records


@task(cache_policy=NO_CACHE, persist_result=False)
def compare(records: list[Record], store: Store) -> Comparison:
    """Judge, summarise and pair the records, at the prices of the run's plan."""
    plan = store.plan
    return compare_records(records, plan.machines, plan.baseline)
