"""The emulated AWS Batch runs jobs as AWS documents it, in real containers."""

import time

import pytest
from botocore.exceptions import ClientError

from tests.emulators.aws import reasons
from tests.emulators.bench import running

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

RECLAIMED_ONLY = {
    "attempts": 3,
    "evaluateOnExit": [
        {"onStatusReason": "Host EC2*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ],
}
SHOUT = "import signal,sys,time\nsignal.signal(15, lambda *_: (print('cleaning up', flush=True), sys.exit(143)))\n"


def test_a_job_succeeds_and_tells_everything(bench):
    states = []
    show = "echo hello; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    show += "; df -m /dev/shm | tail -1; ulimit -n; env | grep ^AWS_BATCH | sort; echo $COLOUR $SIZE"
    job_id = bench.submit(
        *("sh", "-c", show),
        container={
            "linuxParameters": {"sharedMemorySize": 128, "initProcessEnabled": True},
            "ulimits": [{"name": "nofile", "softLimit": 512, "hardLimit": 512}],
            "environment": [{"name": "COLOUR", "value": "red"}, {"name": "SIZE", "value": "1"}],
        },
        overrides={"environment": [{"name": "SIZE", "value": "2"}]},
    )
    job = bench.until(job_id, states=states)
    assert states[-1] == "SUCCEEDED", job["container"].get("reason")
    assert job["statusReason"] == reasons.ESSENTIAL_EXITED
    assert job["container"]["exitCode"] == 0
    assert job["startedAt"] <= job["stoppedAt"]
    assert [attempt["container"]["exitCode"] for attempt in job["attempts"]] == [0]
    assert job["container"]["environment"] == [
        {"name": "COLOUR", "value": "red"},
        {"name": "SIZE", "value": "2"},
    ]
    assert bench.job(job_id)["container"] == job["container"]  # moto's grows with every look
    told = bench.lines(job)
    assert told[:2] == ["hello", str(256 * 2**20)]
    assert told[2].split()[1] == "128"
    assert told[3] == "512"
    assert f"AWS_BATCH_JOB_ID={job_id}" in told
    assert "AWS_BATCH_JOB_ATTEMPT=1" in told
    assert f"AWS_BATCH_JQ_NAME={bench.queue}" in told
    assert f"AWS_BATCH_CE_NAME={bench.queue}" in told
    assert told[-1] == "red 2"


def test_an_exit_code_is_reported_and_not_retried_by_a_rule(bench):
    job = bench.run("sh", "-c", "exit 7", retryStrategy=RECLAIMED_ONLY)
    assert job["status"] == "FAILED"
    assert job["container"]["exitCode"] == 7
    assert job["statusReason"] == reasons.ESSENTIAL_EXITED
    assert "reason" not in job["container"]
    assert len(job["attempts"]) == 1


def test_attempts_without_rules_are_all_used(bench):
    job = bench.run("sh", "-c", "exit 1", submission={"retryStrategy": {"attempts": 2}})
    streams = [attempt["container"]["logStreamName"] for attempt in job["attempts"]]
    assert job["status"] == "FAILED"
    assert len(set(streams)) == 2


def test_out_of_memory_is_told_apart_from_a_kill(bench):
    hungry = bench.run("python3", "-c", "x = bytearray(300 << 20)", memory=64)
    killed = bench.run("sh", "-c", "exit 137")
    assert hungry["container"]["exitCode"] == killed["container"]["exitCode"] == 137
    assert hungry["container"]["reason"] == reasons.OUT_OF_MEMORY
    assert "reason" not in killed["container"]


def test_overrides_that_ecs_does_not_take_fail_after_their_submission(bench):
    long = {"environment": [{"name": "PLAN", "value": "x" * 8000}]}
    job = bench.run("true", overrides=long)
    assert (job["status"], job["statusReason"]) == ("FAILED", reasons.OVERRIDES_TOO_LONG)
    assert "exitCode" not in job["container"]
    shorter = {"environment": [{"name": "PLAN", "value": "x" * 7000}]}
    assert bench.run("true", overrides=shorter)["status"] == "SUCCEEDED"


def test_a_log_group_that_does_not_exist(bench):
    job = bench.run("true", group="/never/made")
    assert job["statusReason"] == reasons.TASK_FAILED_TO_START
    assert "log group does not exist" in job["container"]["reason"]


def test_a_secret_is_in_the_container_alone(bench):
    secret = bench.aws.client("secretsmanager").create_secret(Name="key", SecretString="very secret")["ARN"]
    container = {"secrets": [{"name": "API_KEY", "valueFrom": secret}]}
    job = bench.run("sh", "-c", "echo $API_KEY", container=container)
    assert bench.lines(job) == ["very secret"]
    assert "very secret" not in str(job)
    container["secrets"][0]["valueFrom"] = "arn:aws:secretsmanager:us-east-1:123456789012:secret:none"
    assert bench.run("true", container=container)["container"]["reason"].startswith(
        "ResourceInitializationError"
    )


def test_terminate_sends_sigterm_and_the_log_was_live(bench):
    job_id = bench.submit("python3", "-c", SHOUT + "print('up', flush=True)\nwhile True: time.sleep(1)")
    job = bench.until(job_id, running)
    while "up" not in bench.lines(job):
        time.sleep(0.05)
    assert bench.job(job_id)["status"] == "RUNNING"
    bench.batch.terminate_job(jobId=job_id, reason="no longer wanted")
    job = bench.until(job_id)
    assert job["status"] == "FAILED"
    assert job["statusReason"] == "no longer wanted"
    assert job["container"]["exitCode"] == 143
    assert bench.lines(job) == ["up", "cleaning up"]


def test_cancel_stops_only_jobs_that_have_not_started(bench):
    stuck = bench.aws.control.add("stuck", "waits")
    waiting = bench.submit("true", name="waits")
    bench.until(waiting, lambda job: job["status"] == "RUNNABLE")
    bench.batch.cancel_job(jobId=waiting, reason="changed my mind")
    job = bench.until(waiting)
    assert (job["status"], job["statusReason"]) == ("FAILED", "changed my mind")
    assert job["attempts"] == []
    bench.aws.control.lift(stuck)
    started = bench.submit("sleep", "60")
    bench.until(started, running)
    bench.batch.cancel_job(jobId=started, reason="too late")
    assert bench.job(started)["status"] == "RUNNING"


def test_timeout_ends_the_attempt_and_is_not_retried(bench):
    with pytest.raises(ClientError, match="at least 60"):
        bench.submit("true", timeout={"attemptDurationSeconds": 5})
    with pytest.raises(ClientError, match="at least 60"):
        bench.submit("true", submission={"timeout": {"attemptDurationSeconds": 59}})
    bench.aws.control.least_timeout_s = 1
    job = bench.run("sleep", "60", timeout={"attemptDurationSeconds": 1}, retryStrategy={"attempts": 3})
    assert job["statusReason"] == reasons.TIMED_OUT
    assert job["timeout"] == {"attemptDurationSeconds": 1}
    assert len(job["attempts"]) == 1


def test_reset_leaves_no_container_and_no_job(bench):
    import docker

    job_id = bench.submit("sleep", "300")
    bench.until(job_id, running)
    bench.aws.reset()
    assert docker.from_env().containers.list(all=True, filters={"label": f"batch-job={job_id}"}) == []
    assert bench.batch.describe_job_queues()["jobQueues"] == []
