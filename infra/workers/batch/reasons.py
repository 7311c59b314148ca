"""How a job ended, in the words of Prefect's states. AWS's own sentences are matched here and nowhere else.

[doc] AWS's user guides or API text, [thread] seen by others on AWS. The smoke script of docs/aws.md records
the real ones.
"""

import re
from typing import Any

from infra.workers.base.outcome import KILLED, JobOutcome

Job = dict[str, Any]
TERMINAL = ("SUCCEEDED", "FAILED")

# [doc] Batch user guide, job retries: "Host EC2 (instance i-…) terminated." [thread] nextflow #5786: Fargate
RECLAIMED = re.compile(r"Host EC2|Your Spot Task was interrupted")
# [thread] what the console shows; Batch user guide, job timeouts, describes it without the words
TIMED_OUT = re.compile(r"Job attempt duration exceeded timeout")
# [doc] ECS developer guide, stopped tasks error codes
PULL_FAILED = re.compile(r"CannotPull\w*Error")
OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|OOM ?[Kk]illed")
# [doc] Batch user guide, jobs stuck in RUNNABLE; also after "Canceled by JobStateTimeLimit action due to"
MISCONFIGURED = re.compile(r"MISCONFIGURATION:\w+")
NO_MACHINES = re.compile(r"CAPACITY:\w+")
# What this worker gives as the reason when it ends a job, so that whoever sees the end knows why.
OURS = re.compile(r"(Unschedulable|NoCapacity|Cancelled): (.+)", re.DOTALL)


def ending(job: Job) -> JobOutcome:
    """Judge a job that has ended, from its description."""
    code, said = exit_code(job), reason(job)
    if job["status"] == "SUCCEEDED":
        if code == 0:
            return JobOutcome("Exited", "The container ended with exit code 0.", 0)
        gives = "gives no exit code" if code is None else f"the exit code is {code}"
        return JobOutcome("Crashed", f"AWS Batch says that the job succeeded, but {gives}: {said}", code)
    if ours := OURS.match(job.get("statusReason") or ""):
        return JobOutcome(ours[1], ours[2], code)
    if RECLAIMED.search(said):
        return JobOutcome("Reclaimed", f"AWS took the host back while the job was running: {said}")
    if TIMED_OUT.search(said):
        limit_s = job.get("timeout", {}).get("attemptDurationSeconds", "?")
        return JobOutcome("TimedOut", f"AWS Batch stopped the job after timeout_s {limit_s}: {said}", code)
    if PULL_FAILED.search(said):
        image = job.get("container", {}).get("image", "?")
        return JobOutcome("ImagePullFailed", f"The image {image} could not be pulled: {said}")
    return _unplaced(said, code) or _crashed(job, said, code)


def _unplaced(said: str, code: int | None) -> JobOutcome | None:
    """The ending of a job that a queue's own time limit has cancelled."""
    if MISCONFIGURED.search(said):
        return JobOutcome("Unschedulable", f"No machine of the queue can run the job: {said}", code)
    if NO_MACHINES.search(said):
        return JobOutcome("NoCapacity", f"AWS had no machine for the job: {said}", code)
    return None


def _crashed(job: Job, said: str, code: int | None) -> JobOutcome:
    if OUT_OF_MEMORY.search(said) or (
        code == KILLED and not (job.get("isTerminated") or job.get("isCancelled"))
    ):
        limit = f"memory_mib {requirement(job, 'MEMORY')} was not enough"
        return JobOutcome(
            "OutOfMemory", f"The container ran out of memory ({limit}, exit code {code}): {said}", code
        )
    if code is None:
        return JobOutcome("Crashed", f"The job ended without an exit code: {said}")
    return JobOutcome("Crashed", f"The container ended with exit code {code}: {said}", code)


def exit_code(job: Job) -> int | None:
    """The exit code of the last attempt, or None where its container had none."""
    return last_container(job).get("exitCode")


def last_container(job: Job) -> Job:
    """The container of the last attempt: the newest one is in both places, or in `container` alone."""
    attempts = job.get("attempts") or []
    return attempts[-1].get("container", {}) if attempts else job.get("container", {})


def reason(job: Job) -> str:
    """Everything that AWS says about the end of the last attempt, each sentence once."""
    attempts = job.get("attempts") or [{}]
    said = (job.get("statusReason"), attempts[-1].get("statusReason"), last_container(job).get("reason"))
    return " / ".join(dict.fromkeys(text.strip() for text in said if text)) or "AWS gave no reason"


def lost_attempts(job: Job) -> list[str]:
    """What AWS said of each attempt whose host was reclaimed, in order; empty for the other attempts."""
    found = []
    for attempt in job.get("attempts") or []:
        said = (
            f"{attempt.get('statusReason') or ''} {attempt.get('container', {}).get('reason') or ''}".strip()
        )
        found.append(said if RECLAIMED.search(said) else "")
    return found


def requirement(job: Job, kind: str) -> int:
    """How much a job asks for of VCPU, MEMORY (MiB) or GPU."""
    container = job.get("container", {})
    for item in container.get("resourceRequirements", []):
        if item["type"] == kind:
            return int(float(item["value"]))
    older = {"VCPU": "vcpus", "MEMORY": "memory"}.get(kind, "")
    return int(container.get(older) or 0)
