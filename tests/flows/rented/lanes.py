from tasks.dispatch.job_notes import jobs_of
from tasks.findings.bills import Bills
from tasks.gather import judged
from workloads.harness.records.record import Verdict

MEASURED = {Verdict.OK, Verdict.NOISY, Verdict.IMPRECISE, Verdict.UNSTEADY}  # this machine is not quiet


def run_of(gridbench):
    store = gridbench.records()
    records, odd = store.records()
    assert not odd
    return store, records, {bill.hardware: bill for bill in judged(records, store).finding(Bills).bills}


def paid(store, hardware):
    return [job.usd for job in jobs_of(store) if job.hardware == hardware and job.usd is not None]
