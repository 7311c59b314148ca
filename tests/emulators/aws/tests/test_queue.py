"""The emulated AWS Batch queues, diagnoses, lists, throttles and forgets as AWS does."""

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from tests.emulators.aws import reasons
from tests.emulators.bench import running

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"gpus": 1}, reasons.RESOURCE_REQUIREMENT),
        ({"memory": 16384}, reasons.RESOURCE_REQUIREMENT),  # all of a c5.2xlarge's: the system needs some
        (
            {"container": {"vcpus": 64, "resourceRequirements": [], "memory": 512}},
            reasons.RESOURCE_REQUIREMENT,
        ),
    ],
)
def test_what_never_fits_is_stuck_with_a_reason(bench, definition, reason):
    job_id = bench.submit("true", **definition)
    job = bench.until(job_id, lambda job: job.get("statusReason"))
    assert (job["status"], job["statusReason"]) == ("RUNNABLE", reason)


def test_a_compute_environment_too_small_for_its_own_instances(bench, batch_queue):
    queue = batch_queue("c5.2xlarge", max_vcpus=4)
    job = bench.until(bench.submit("true", queue=queue), lambda job: job.get("statusReason"))
    assert (job["status"], job["statusReason"]) == ("RUNNABLE", reasons.MAX_RESOURCE)


def test_no_capacity_until_there_is_some(bench, batch_queue):
    queue = batch_queue("g5.xlarge", spot=True)
    stuck = bench.aws.control.add("stuck")
    first = bench.submit("true", queue=queue, gpus=1)
    behind = bench.submit("true", queue=queue)
    job = bench.until(first, lambda job: job.get("statusReason"))
    assert job["statusReason"] == reasons.INSUFFICIENT_CAPACITY.format(instance_type="g5.xlarge")
    assert "statusReason" not in bench.job(behind)  # only the head of the queue is told
    bench.aws.control.lift(stuck)
    assert bench.until(first)["status"] == bench.until(behind)["status"] == "SUCCEEDED"


def test_a_delay_is_time_in_runnable(bench):
    fault = bench.aws.control.add("delay", after_s=1.0, reason=reasons.RESOURCE_REQUIREMENT)
    job_id = bench.submit("true")
    assert bench.until(job_id, lambda job: job.get("statusReason"))["status"] == "RUNNABLE"
    job = bench.until(job_id)
    assert job["status"] == "SUCCEEDED"
    assert fault.hits == 1
    assert job["startedAt"] - job["createdAt"] >= 1000


def test_a_queue_cancels_by_its_own_time_limit(bench):
    limit = {
        "state": "RUNNABLE",
        "reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "maxTimeSeconds": 600,
        "action": "CANCEL",
    }
    bench.batch.update_job_queue(jobQueue=bench.queue, jobStateTimeLimitActions=[limit])
    assert bench.batch.describe_job_queues(jobQueues=[bench.queue])["jobQueues"][0][
        "jobStateTimeLimitActions"
    ]
    bench.aws.control.add("stuck")
    bench.aws.control.time_limit_scale = 1 / 1200
    job = bench.run("true")
    assert job["statusReason"] == reasons.TIME_LIMIT.format(reason=limit["reason"])


def test_max_vcpus_holds_jobs_back(bench, batch_queue):
    queue = batch_queue("c5.2xlarge", max_vcpus=8)
    first, second = (bench.submit("sleep", "60", queue=queue) for _ in range(2))
    bench.until(first, running)
    assert bench.job(second)["status"] in ("SUBMITTED", "RUNNABLE")
    bench.batch.terminate_job(jobId=first, reason="room")
    bench.until(second, running)
    assert bench.job(first)["status"] == "FAILED"


def test_a_job_waits_for_another_and_fails_with_it(bench):
    first = bench.submit("sh", "-c", "exit 3")
    job = bench.run("true", submission={"dependsOn": [{"jobId": first}]})
    assert (job["status"], job["statusReason"]) == ("FAILED", reasons.DEPENDENCY_FAILED)


def test_an_array_fails_with_a_child(bench):
    parent = bench.submit(
        "sh", "-c", "exit $AWS_BATCH_JOB_ARRAY_INDEX", submission={"arrayProperties": {"size": 2}}
    )
    job = bench.until(parent)
    assert (job["status"], job["statusReason"]) == ("FAILED", reasons.ARRAY_CHILD_FAILED)
    assert job["arrayProperties"]["statusSummary"]["SUCCEEDED"] == 1
    children = bench.batch.list_jobs(arrayJobId=parent, jobStatus="FAILED")["jobSummaryList"]
    assert [child["arrayProperties"]["index"] for child in children] == [1]


def test_jobs_are_listed_as_documented(bench):
    hold = bench.aws.control.add("stuck")
    ids = [bench.submit("true", name=f"run1-{n}") for n in range(3)]
    listed = lambda **wanted: bench.batch.list_jobs(jobQueue=bench.queue, **wanted)  # noqa: E731
    assert listed()["jobSummaryList"] == []  # RUNNING is the default
    bench.until(ids[-1], lambda job: job["status"] == "RUNNABLE")
    assert len(listed(jobStatus="RUNNABLE")["jobSummaryList"]) == 3
    page = listed(filters=[{"name": "JOB_NAME", "values": ["RUN1-*"]}], maxResults=2)
    rest = listed(filters=[{"name": "JOB_NAME", "values": ["RUN1-*"]}], nextToken=page["nextToken"])
    found = page["jobSummaryList"] + rest["jobSummaryList"]
    assert [job["jobId"] for job in found] == ids[::-1]
    assert "nextToken" not in rest
    bench.aws.control.lift(hold)


def test_at_most_a_hundred_ids(bench):
    with pytest.raises(ClientError, match="between 1 and 100"):
        bench.batch.describe_jobs(jobs=[str(n) for n in range(101)])
    assert bench.batch.describe_jobs(jobs=[str(n) for n in range(100)])["jobs"] == []


def test_reserved_names_are_refused(bench):
    with pytest.raises(ClientError, match="AWS_BATCH_JOB_ID"):
        bench.submit("true", overrides={"environment": [{"name": "AWS_BATCH_JOB_ID", "value": "mine"}]})


def test_a_fresh_job_is_forgotten_for_some_polls(bench):
    bench.aws.control.forget_polls = 2
    job_id = bench.submit("true")
    answers = [len(bench.batch.describe_jobs(jobs=[job_id])["jobs"]) for _ in range(3)]
    assert answers == [0, 0, 1]


def once(aws):
    return boto3.client(
        "batch",
        "us-east-1",
        endpoint_url=aws.url,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
    )


def test_throttling_hits_every_nth_call_and_calls_are_counted(bench):
    batch = once(bench.aws)
    bench.aws.control.throttle("DescribeJobQueues", every=3)
    codes = []
    for _ in range(6):
        try:
            batch.describe_job_queues()
            codes.append(200)
        except batch.exceptions.ClientError as error:
            codes.append(
                (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
            )
    refused = (429, "TooManyRequestsException")
    assert codes == [200, 200, refused, 200, 200, refused]
    assert bench.aws.control.calls["DescribeJobQueues"] == 6
    patient = Config(retries={"mode": "standard", "total_max_attempts": 5})
    assert bench.aws.client("batch", config=patient).describe_job_queues()["jobQueues"]


def test_a_lost_network_comes_back(bench):
    batch = once(bench.aws)
    with bench.aws.control.lost_network("batch"):
        with pytest.raises(HTTPClientError):
            batch.describe_job_queues()
        assert bench.logs.describe_log_groups()["logGroups"]  # the rest is there
    with (
        bench.aws.control.lost_network("batch", "server_error"),
        pytest.raises(ClientError, match="ServerException"),
    ):
        batch.describe_job_queues()
    assert batch.describe_job_queues()["jobQueues"]


def test_an_answer_can_be_lost_after_the_deed(bench):
    batch = once(bench.aws)
    definition = bench.define("true")
    bench.aws.control.throttle("SubmitJob", answer="hang_up", done=True)
    with pytest.raises(HTTPClientError):
        batch.submit_job(jobName="twice", jobQueue=bench.queue, jobDefinition=definition)
    filters = [{"name": "JOB_NAME", "values": ["twice"]}]
    assert len(batch.list_jobs(jobQueue=bench.queue, filters=filters)["jobSummaryList"]) == 1


def test_deletion_has_an_order(bench):
    batch = bench.batch
    with pytest.raises(ClientError, match="DISABLED"):
        batch.delete_job_queue(jobQueue=bench.queue)
    batch.update_compute_environment(computeEnvironment=bench.queue, state="DISABLED")
    with pytest.raises(ClientError, match="JobQueue relationship"):
        batch.delete_compute_environment(computeEnvironment=bench.queue)
    batch.update_job_queue(jobQueue=bench.queue, state="DISABLED")
    batch.delete_job_queue(jobQueue=bench.queue)
    batch.delete_compute_environment(computeEnvironment=bench.queue)
    assert batch.describe_compute_environments()["computeEnvironments"] == []
