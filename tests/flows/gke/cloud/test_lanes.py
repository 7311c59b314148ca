from dataclasses import replace

import pytest

from infra.workers.kubernetes.api import OF_RUNS
from tasks.findings.bills import Bills
from tasks.gather import judged
from tasks.planning.hardware import DEPLOYMENTS
from tasks.pricing.facts import load_facts
from tests.flows.gke.lanes import (
    MACHINES,
    NAMESPACE,
    NODE_AFTER_S,
    POOLS,
    finished,
    nodes_of,
    notes,
    things,
    until,
)
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def of_run(cluster, plural, store):
    lanes = {note["flow_run_id"] for note in notes(store)}
    return [of for of in things(cluster, plural) if of["metadata"]["labels"].get(OF_RUNS) in lanes]


def ends(cluster, store):
    conditions = [job["status"].get("conditions", ()) for job in of_run(cluster, "jobs", store)]
    return [next((c["type"] for c in of if c["type"] in ("Complete", "Failed")), None) for of in conditions]


def usd_per_hour(name):
    _, gpu, host, purchase = MACHINES[name]
    facts = [fact for fact in load_facts(DEPLOYMENTS) if fact.provider == "gcp" and fact.purchase == purchase]
    parts = [fact for fact in facts if fact.part in (("host", host), ("gpu", gpu))]
    return sum(fact.usd_per_hour for fact in parts if fact.region == "us-central1")


async def test_three_accelerators_are_measured_compared_and_priced(bench, cluster):
    store, records = await finished(bench, await bench.start(suite="miniature", hardware=POOLS))
    assert [r.cell for r in records] == store.plan.cells and len(records) == 9
    assert not any(r.verdict.is_failure for r in records)
    placed = nodes_of(cluster)
    for record in records:
        assert record.environment["container"] == "kubernetes" and record.environment["commit"]
        assert placed[record.environment["hostname"]] == f"{record.hardware}-1"
    quiet = [
        replace(record, verdict=Verdict.OK, reasons=()) for record in records
    ]  # this machine might not be
    found = judged(quiet, store)
    assert not found.refusals
    compared(found)
    billed(found, notes(store))
    await until(lambda: all(ends(cluster, store)))
    assert ends(cluster, store) == ["Complete"] * 3, "one job a lane"
    assert {pod["status"]["phase"] for pod in of_run(cluster, "pods", store)} == {"Succeeded"}
    made = {(r.method, r.path) for r in cluster.control.asked() if r.method not in ("GET", "DELETE")}
    assert made == {("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")}, "nothing but Jobs is left"


def compared(found):
    assert all(summary.usd_per_million_units for summary in found.summaries)
    assert {(p.hardware, p.baseline) for p in found.pairings} == {(name, POOLS[0]) for name in POOLS[1:]}
    for pairing in found.pairings:
        cheaper = usd_per_hour(pairing.baseline) / usd_per_hour(pairing.hardware)
        assert pairing.cost.estimate.value == pytest.approx(pairing.compute.estimate.value * cheaper)
    assert len(found.pairings) == 6 and [line.partition(":")[0] for line in found.sentences[:2]] == [
        "Fastest",
        "Cheapest",
    ]


def billed(found, jobs):
    """Assert each lane's bill: node, image, and every second at the price of host and GPU."""
    assert (
        [job["hardware"] for job in jobs] == POOLS == [bill.hardware for bill in found.finding(Bills).bills]
    )
    for job, bill, machine in zip(jobs, found.finding(Bills).bills, found.machines, strict=True):
        assert job["stages_s"].keys() == {"queue and boot", "image pull"}
        assert dict(bill.parts_s)["queue and boot"] >= NODE_AFTER_S - 1, "Kubernetes tells whole seconds"
        assert bill.billed_s == pytest.approx(job["billed_s"])
        assert machine.usd_per_hour == pytest.approx(usd_per_hour(machine.name)) and machine.usd_per_hour
        assert bill.usd == pytest.approx(bill.billed_s / 3600 * machine.usd_per_hour)
