import pytest

from infra.workers.batch.reasons import lost_attempts, outcome_of

HOST = "Host EC2 (instance i-0123456789abcdef0) terminated."
EXITED = "Essential container in task exited"
OOM = "OutOfMemoryError: Container killed due to memory usage"
PULL = "CannotPullContainerError: Error response from daemon: pull access denied"
LIMIT = {"timeout": {"attemptDurationSeconds": 60}}


def job(status="FAILED", code=None, said=EXITED, reason=None, attempt_said=None, **more):
    container = {"image": "registry/bench:1", "resourceRequirements": [{"type": "MEMORY", "value": "2048"}]}
    container |= {} if code is None else {"exitCode": code}
    container |= {} if reason is None else {"reason": reason}
    attempt = {"container": container, "statusReason": attempt_said or said, "startedAt": 1_000}
    attempt["stoppedAt"] = 1_000 + int(more.pop("ran_s", 10.0) * 1000)
    told = {"status": status, "container": container, "attempts": [attempt], "statusReason": said}
    return told | more


@pytest.mark.parametrize(
    ("described", "name", "words"),
    [
        (job("SUCCEEDED", 0), "Exited", "exit code 0"),
        (
            job("SUCCEEDED", None),
            "Crashed",
            "it has no exit code",
        ),  # nextflow #4096: a missing code was read as success
        (job("FAILED", 0), "Crashed", "exit code 0"),
        (job(code=9), "Crashed", "exit code 9"),
        (job(), "Crashed", "without an exit code"),
        (job(said=HOST), "Reclaimed", "i-0123456789abcdef0"),
        (job(said=EXITED, attempt_said=HOST), "Reclaimed", "i-0123456789abcdef0"),
        (job(said="Your Spot Task was interrupted."), "Reclaimed", "Spot"),
        (job(code=137, said=HOST), "Reclaimed", "terminated"),
        (job(code=137), "OutOfMemory", "memory_mib 2048 was not enough, exit code 137"),
        (job(code=1, reason=OOM), "OutOfMemory", "OutOfMemoryError"),
        (
            job(code=137, said="ended by an admin", isTerminated=True),
            "Cancelled",
            "terminated outside of Prefect: ended by an admin",
        ),
        (job(code=143, said="wrong image", isTerminated=True), "Cancelled", "wrong image"),
        ({"status": "FAILED", "statusReason": "not now", "isCancelled": True}, "Cancelled", "not now"),
        (job(code=3, said="too late", isTerminated=True), "Crashed", "exit code 3"),  # by itself, just before
        (job(code=137, reason=OOM, said="too late", isTerminated=True), "OutOfMemory", "OutOfMemoryError"),
        (job(code=137, said=HOST, isTerminated=True), "Reclaimed", "terminated"),
        (job(code=137, said="no", isTerminated=True, ran_s=61, **LIMIT), "TimedOut", "timeout_s 60"),
        (job(said="Task failed to start", reason=PULL), "ImagePullFailed", "registry/bench:1"),
        (job(code=137, said="Whatever AWS says of it", ran_s=61, **LIMIT), "TimedOut", "timeout_s 60"),
        (job(code=1, said="Whatever AWS says of it", ran_s=95, **LIMIT), "TimedOut", "timeout_s 60"),
        (job(code=1, ran_s=59.9, **LIMIT), "Crashed", "exit code 1"),
        (job("SUCCEEDED", 0, ran_s=61, **LIMIT), "Exited", "exit code 0"),
        (job(said="Host EC2 (instance i-0) terminated.", ran_s=61, **LIMIT), "Reclaimed", "i-0"),
        (
            job(
                said="Canceled by JobStateTimeLimit action due to reason: "
                "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
            ),
            "Unschedulable",
            "JOB_RESOURCE_REQUIREMENT",
        ),
        (
            {"status": "FAILED", "statusReason": "Container Overrides length must be at most 8192"},
            "Unfit",
            "Container Overrides length must be at most 8192",
        ),
        (job(said="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - …"), "NoCapacity", "INSUFFICIENT"),
        # The worker that ended it can be gone when the end is seen.
        (job(said="Unschedulable: gpus 8 is more than …"), "Unschedulable", "gpus 8 is more than …"),
        (job(code=143, said="Cancelled: from Prefect"), "Cancelled", "from Prefect"),
        ({"status": "FAILED"}, "Crashed", "AWS gave no reason"),
    ],
)
def test_the_end_and_its_words(described, name, words):
    found = outcome_of(described)
    assert found.name == name and words in found.message
    assert (found.status_code == 0) == (name == "Exited")


def test_the_last_attempt_counts():
    first = {"container": {"exitCode": 137, "reason": OOM}, "statusReason": EXITED}
    last = {"container": {"exitCode": 3}, "statusReason": EXITED}
    found = outcome_of({"status": "FAILED", "attempts": [first, last], "container": first["container"]})
    assert (found.name, found.exit_code) == ("Crashed", 3)


def test_attempts_that_lost_their_host_are_distinguished_from_the_others():
    attempts = [
        {"statusReason": HOST, "container": {}},
        {"statusReason": EXITED, "container": {"exitCode": 1}},
    ]
    assert lost_attempts({"attempts": attempts}) == [HOST, ""]
