import json
import os

import pytest

from tasks.findings.bills import Bills
from tasks.gather import judged
from tasks.measure import NOTHING
from tests.emulators import containers
from tests.flows.batch.lanes import MEASURED, save
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


async def test_a_reclaimed_lane_continues_with_the_remaining_repeats(bench, cloud):
    fault = cloud.control.add("reclaim", after_line="[3/6]")
    run_id = await bench.start(suite="cloud", hardware=["cloud-m5-spot"])
    state = await bench.end(run_id, within_s=900)
    assert state.is_completed(), state.message
    store = await bench.store(run_id)
    records, odd = store.records()
    assert fault.hits == 1 and not odd and len(records) == 6 and {r.verdict for r in records} <= MEASURED
    first, second = json.loads((store.folder / "jobs.json").read_text())
    assert (first["repeats"], second["repeats"]) == (6, 4), "two records had come"
    assert len({r.environment["instance_id"] for r in records}) == 2
    (bill,) = judged(records, store).finding(Bills).bills
    assert bill.billed_s == pytest.approx(first["billed_s"] + second["billed_s"]), "lost minutes are paid for"
    async with bench.client() as client:
        lost = await client.read_flow_run(first["flow_run_id"])
    assert lost.state.name == "Reclaimed" and "terminated" in lost.state.message


async def test_a_machine_that_is_too_big_for_its_queue_ends_the_lane_with_the_number(bench, cloud):
    run_id = await bench.start(suite="cloud", hardware=["cloud-huge"])
    assert (await bench.end(run_id, within_s=400)).name == NOTHING
    store = await bench.store(run_id)
    records, _ = store.records()
    assert len(records) == 6 and {r.verdict for r in records} == {Verdict.CAPACITY}
    assert "vcpus 64" in records[0].reasons[0] and "cloud-c5" in records[0].reasons[0]
    assert cloud.control.calls["SubmitJob"] == 1


@pytest.fixture
def theirs(image):
    """Tag the image for this process: another checkout's tests can run at the same time."""
    name = f"localhost/gridbench-version:v2-{os.getpid()}"
    containers.podman("tag", image, name)
    yield name
    containers.podman("untag", name)


async def test_a_version_of_a_search_is_measured_in_its_own_image(bench, cloud, theirs):
    await save(bench, cloud, "localhost/the-machines-own:missing")
    version = {"name": "v2", "image": theirs}
    night = {"confirms": "bisect-one", "cases": ["nap/ms=2/fp32"], "version": version}
    request = {"suite": "cloud", "hardware": ["cloud-c5"], "results": str(bench.results), "night": night}
    run_id = await bench.start(request=request)
    state = await bench.end(run_id, within_s=900)
    assert state.is_completed(), state.message
    records, odd = (await bench.store(run_id)).records()
    assert not odd and [r.case.id for r in records] == ["nap/ms=2/fp32"] * 2
    assert {r.verdict for r in records} <= MEASURED, records[0].reasons
    batch = cloud.client("batch")
    (job,) = batch.list_jobs(jobQueue="cloud-c5", jobStatus="SUCCEEDED")["jobSummaryList"]
    (told,) = batch.describe_jobs(jobs=[job["jobId"]])["jobs"]
    assert told["container"]["image"] == theirs
