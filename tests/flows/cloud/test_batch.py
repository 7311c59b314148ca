"""`bench` over AWS Batch: a real server and worker, emulated AWS, real containers of the image built here."""

import asyncio
import json
import re
import urllib.request
from pathlib import Path

import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.variables import Variable
from prefect_aws import AwsCredentials, S3Bucket

from gridbench.run.session import deploy
from tasks.gather import judged
from tests.emulators import containers
from tests.emulators.lane import LOG_GROUP, make_pool, with_workload, worker
from tests.flows.conftest import CLOUDS
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]

HERE = Path(__file__).parents[1]
MEASURED = {Verdict.OK, Verdict.NOISY, Verdict.IMPRECISE, Verdict.UNSTEADY}  # this machine is no quiet one


@pytest.fixture(scope="module")
def image(bench_image):
    """The image built here, and naps to measure in it."""
    return with_workload(bench_image, HERE / "workloads" / "nap.py")


@pytest.fixture
async def cloud(bench, image, aws, batch_queue, tmp_path):
    """An account with a queue for each machine, the work pool, the lane's deployment, a bucket, a worker."""
    for name, (instance, purchase) in CLOUDS.items():
        batch_queue(instance, spot=purchase == "spot", name=name)
    aws.client("logs").create_log_group(logGroupName=LOG_GROUP)
    aws.client("s3").create_bucket(Bucket="kept")
    async with bench.client() as client:
        await make_pool(client)
    await save(bench, aws, image)
    await asyncio.to_thread(deploy, False, bench.stack.environment, "aws-batch")
    with worker(bench.stack.environment, tmp_path / "worker.log"):
        yield aws


async def save(bench, aws, image):
    """The bucket's block, and which image the hardware files mean."""
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    credentials = AwsCredentials(**keys, aws_client_parameters={"endpoint_url": aws.url})
    with temporary_settings({PREFECT_API_URL: bench.stack.api_url}):
        await S3Bucket(bucket_name="kept", credentials=credentials).save("gridbench", overwrite=True)
        await Variable.aset("gridbench_image_cpu", image, overwrite=True)


def keys_in(aws):
    pages = aws.client("s3").get_paginator("list_objects_v2").paginate(Bucket="kept")
    return {found["Key"] for page in pages for found in page.get("Contents", ())}


async def report_link(bench, run_id):
    wanted = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]), key=ArtifactFilterKey(any_=["bench-report"])
    )
    async with bench.client() as client:
        (found,) = await client.read_artifacts(artifact_filter=wanted)
    return re.search(r"\((http[^)]+)\)", found.data)[1]


async def test_two_machines_are_measured_in_containers_and_the_report_is_in_the_bucket(bench, cloud):
    run_id = await bench.start(suite="cloud", hardware=list(CLOUDS), results="s3-bucket/gridbench")
    state = await bench.end(run_id, within_s=900)
    assert state.is_completed(), state.message
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd and [r.cell for r in records[::2]] == store.plan.cells and len(records) == 12
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
    assert all(bill.billed_s > 0 and bill.usd > 0 for bill in found.bills) and len(found.bills) == 2
    stages = {"queue and boot", "start of the container and Prefect", "import", "idle"}
    assert all(stages <= dict(bill.parts_s).keys() for bill in found.bills)
    run = store.folder.name
    local = {f"{run}/{p.relative_to(store.folder)}" for p in store.folder.rglob("*") if p.is_file()}
    assert local == keys_in(cloud) and f"{run}/report.html" in local
    with urllib.request.urlopen(await report_link(bench, run_id)) as answer:
        assert answer.headers["Content-Type"].startswith("text/html")
        assert run in answer.read().decode()
    assert cloud.control.calls["SubmitJob"] == 2, "one job a lane"


@pytest.mark.chaos
async def test_a_reclaimed_lane_goes_on_with_what_is_left(bench, cloud):
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
    (bill,) = judged(records, store).bills
    assert bill.billed_s == pytest.approx(first["billed_s"] + second["billed_s"]), "lost minutes are paid for"
    async with bench.client() as client:
        lost = await client.read_flow_run(first["flow_run_id"])
    assert lost.state.name == "Reclaimed" and "terminated" in lost.state.message


@pytest.mark.chaos
async def test_a_machine_that_is_too_big_for_its_queue_ends_the_lane_with_the_number(bench, cloud):
    run_id = await bench.start(suite="cloud", hardware=["cloud-huge"])
    assert (await bench.end(run_id, within_s=400)).is_completed()
    store = await bench.store(run_id)
    records, _ = store.records()
    assert len(records) == 6 and {r.verdict for r in records} == {Verdict.CAPACITY}
    assert "vcpus 64" in records[0].reasons[0] and "cloud-c5" in records[0].reasons[0]
    assert cloud.control.calls["SubmitJob"] == 1


@pytest.mark.chaos
async def test_a_version_of_a_search_is_measured_in_its_own_image(bench, cloud, image):
    theirs = "localhost/gridbench-version:v2"
    containers.podman("tag", image, theirs)
    await save(bench, cloud, "localhost/the-machines-own:missing")
    version = {"name": "v2", "image": theirs}
    night = {"confirms": "bisect-one", "cases": ["nap/ms=2/fp32"], "version": version}
    request = {"suite": "cloud", "hardware": ["cloud-c5"], "results": str(bench.results), "night": night}
    run_id = await bench.start(request=request)
    state = await bench.end(run_id, within_s=900)
    assert state.is_completed(), state.message
    records, odd = (await bench.store(run_id)).records()
    assert not odd and [r.case.id for r in records] == ["nap/ms=2/fp32"] * 2
    assert {r.verdict for r in records} <= MEASURED
    batch = cloud.client("batch")
    (job,) = batch.list_jobs(jobQueue="cloud-c5", jobStatus="SUCCEEDED")["jobSummaryList"]
    (told,) = batch.describe_jobs(jobs=[job["jobId"]])["jobs"]
    assert told["container"]["image"] == theirs
