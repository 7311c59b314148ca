import pytest

from tasks.findings.bills import Bills
from tasks.gather import judged
from tests.flows.gke.lanes import finished, nodes_of, notes, things, until
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def pod_that_says(cluster, text):
    def look():
        logs = cluster.control.cluster.kubelet.logs
        for pod in cluster.control.cluster.store.all("pods"):
            said = b"".join(line for log in logs.get(pod["metadata"]["uid"], ()) for _, line in log.lines)
            if pod["status"].get("phase") == "Running" and text.encode() in said:
                return pod
        return None

    return cluster.control.call(look)


async def test_a_reclaimed_lane_continues_on_a_new_node(bench, cluster):
    run_id = await bench.start(suite="cloud", hardware=["node-l4-spot"])
    pod = await until(lambda: pod_that_says(cluster, "[3/6]"))
    cluster.control.reclaim_node(pod["spec"]["nodeName"])
    store, records = await finished(bench, run_id)
    assert len(records) == 6 and not any(r.verdict.is_failure for r in records)
    first, second = notes(store)
    assert (first["repeats"], second["repeats"]) == (6, 4), "two records had come"
    placed = nodes_of(cluster)
    there = [placed[record.environment["hostname"]] for record in records]
    assert len(set(there)) == 2 and there.count(pod["spec"]["nodeName"]) == 2
    (bill,) = judged(records, store).finding(Bills).bills
    assert bill.billed_s == pytest.approx(first["billed_s"] + second["billed_s"]), "lost minutes are paid for"
    async with bench.client() as client:
        lost = await client.read_flow_run(first["flow_run_id"])
    assert lost.state.name == "Reclaimed" and f"{pod['spec']['nodeName']} was shut down" in lost.state.message


async def test_an_accelerator_that_no_pool_has_ends_its_lane_and_no_other(bench, cluster):
    store, records = await finished(bench, await bench.start(hardware=["node-p4", "node-t4"]))
    absent = [record for record in records if record.hardware == "node-p4"]
    assert len(absent) == 3 and {record.verdict for record in absent} == {Verdict.CAPACITY}
    measured = [record for record in records if record.hardware == "node-t4"]
    assert len(measured) == 3 and not any(record.verdict.is_failure for record in measured)
    (job,) = [note for note in notes(store) if note["hardware"] == "node-p4"]
    async with bench.client() as client:
        lane = await client.read_flow_run(job["flow_run_id"])
    assert lane.state.name == "Unschedulable" and lane.state.message in absent[0].reasons[0]
    words = ("No node was found for the pod within schedule_within_s 5: 0/", "NotTriggerScaleUp")
    assert all(word in lane.state.message for word in words), lane.state.message
    name = lane.infrastructure_pid.partition(":")[2]
    assert cluster.control.asked("DELETE", f"*/jobs/{name}")
    await until(lambda: name not in {of["metadata"]["name"] for of in things(cluster, "jobs")})
