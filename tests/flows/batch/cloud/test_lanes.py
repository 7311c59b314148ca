import re

import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey

from tasks.findings.bills import Bills
from tasks.gather import judged
from tests.flows.batch.lanes import CLOUDS, MEASURED

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def keys_in(aws):
    pages = aws.client("s3").get_paginator("list_objects_v2").paginate(Bucket="kept")
    return {found["Key"] for page in pages for found in page.get("Contents", ())}


async def report_link(bench, run_id):
    wanted = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]), key=ArtifactFilterKey(any_=["bench-report"])
    )
    async with bench.client() as client:
        (found,) = await client.read_artifacts(artifact_filter=wanted)
    return re.search(r"\((s3://[^)]+)\)", found.data)[1]


async def test_two_machines_are_measured_in_containers_and_the_report_is_in_the_bucket(bench, cloud):
    asked = {"suite": "cloud", "hardware": list(CLOUDS), "repeats": 1}
    run_id = await bench.start(**asked, results="s3-bucket/gridbench")
    state = await bench.end(run_id, within_s=900)
    assert state.is_completed(), state.message
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd and [r.cell for r in records] == store.plan.cells and len(records) == 6
    assert {r.verdict for r in records} <= MEASURED
    for record in records:
        instance, purchase = CLOUDS[record.hardware]
        said = record.environment
        assert (said["instance_type"], said["purchase"]) == (instance, purchase)
        assert said["instance_id"].startswith("i-") and said["zone"].startswith("us-east-1")
        assert said["commit"], "the image knows its commit"
    found = judged(records, store)
    assert not found.refusals
    for summary in found.summaries:
        assert summary.usd_per_million_units or not summary.ok_repeats
    assert (
        all(bill.billed_s > 0 and bill.usd > 0 for bill in found.finding(Bills).bills)
        and len(found.finding(Bills).bills) == 2
    )
    stages = {"queue and boot", "start of the container and Prefect", "import", "idle"}
    assert all(stages <= dict(bill.parts_s).keys() for bill in found.finding(Bills).bills)
    run = store.folder.name
    local = {f"{run}/{p.relative_to(store.folder)}" for p in store.folder.rglob("*") if p.is_file()}
    assert local == keys_in(cloud) and f"{run}/report.html" in local
    assert await report_link(bench, run_id) == f"s3://kept/{run}/report.html"
    assert cloud.control.calls["SubmitJob"] == 2, "one job a lane"
