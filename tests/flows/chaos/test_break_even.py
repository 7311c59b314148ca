import json

import pytest

from tasks.findings.bills import Bills
from tasks.findings.break_even import BreakEvens
from tasks.gather import judged

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

CROSSING = 415  # of the stand-in racer.py


async def test_further_sizes_are_measured_until_the_break_even_is_known(bench):
    run_id = await bench.start(suite="race", hardware=["sloping", "flat"], break_even=True)
    assert (await bench.end(run_id, within_s=600)).is_completed()
    store = await bench.store(run_id)
    records, odd = store.records()
    found = judged(records, store)
    (time,) = (crossing for crossing in found.finding(BreakEvens).break_evens if crossing.by == "time")
    assert not odd and time.below < CROSSING < time.above <= 1.25 * time.below, time.sentence
    # the geometric middle of 340 and 500, on both machines
    assert {r.case.params["n"] for r in records} == {340, 412, 500} and len(records) == 2 * 3 * 3
    assert f"{time.sentence}." in found.sentences
    assert {total.cases for total in found.totals} == {2}, "totals are the suite's"
    tasks = await bench.tasks(run_id)
    assert {"sloping/matmul/n=412/fp32", "flat/matmul/n=412/fp32"} <= tasks.keys()
    jobs = json.loads((store.folder / "jobs.json").read_text())
    assert sum(job["repeats"] for job in jobs) == len(records)
    assert all(job["ended_at"] for job in jobs[:-2])
    bills = found.finding(Bills).bills
    for bill in bills:
        parts = dict(bill.parts_s)
        assert parts["queue, boot and pull"] > 0 and parts["idle"] > 0 and bill.notes == ()
    # Entries of one machine take turns in a job, whose time is divided between them.
    assert sum(bill.billed_s for bill in bills) == pytest.approx(sum(job["billed_s"] for job in jobs))
