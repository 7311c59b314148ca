import pytest
from botocore.exceptions import ClientError

from tests.emulators.aws import reasons
from tests.emulators.bench import running

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


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
    assert "statusReason" not in bench.job(behind)  # only the head of the queue gets a reason
    bench.aws.control.lift(stuck)
    assert bench.until(first)["status"] == bench.until(behind)["status"] == "SUCCEEDED"


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
