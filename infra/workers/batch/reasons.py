"""The outcome of a job from its description. Only this file matches AWS's sentences.

[doc] AWS's user guides or API text, [thread] seen by others on AWS.
"""

import re
from typing import Any

from ..base.outcome import ENDED_BY_OTHERS, KILLED, JobOutcome, is_state_name

Job = dict[str, Any]
TERMINAL = ("SUCCEEDED", "FAILED")

# [doc] Batch user guide, job retries: "Host EC2 (instance i-…) terminated." [thread] nextflow #5786: Fargate
RECLAIMED = re.compile(r"Host EC2|Your Spot Task was interrupted")
# [doc] ECS developer guide, stopped tasks error codes
PULL_FAILED = re.compile(r"CannotPull\w*Error")
# [thread] Netflix/metaflow #1482 and #977, ASFHyP3/hyp3 #3041: SubmitJob had accepted the job
TOO_LONG = re.compile(r"Container Overrides length must be at most \d+")
OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|OOM ?[Kk]illed")
# [doc] Batch user guide, jobs stuck in RUNNABLE; also after "Canceled by JobStateTimeLimit action due to"
MISCONFIGURED = re.compile(r"MISCONFIGURATION:\w+")
NO_MACHINES = re.compile(r"CAPACITY:\w+")
# This worker's reasons when it ends a job, so that any worker can read them from the job.
OURS = re.compile(r"(Unschedulable|NoCapacity|Cancelled): (.+)", re.DOTALL)


def outcome_of(job: Job) -> JobOutcome:
    code, text = exit_code(job), reason(job)
    if job["status"] == "SUCCEEDED":
        if code == 0:
            return JobOutcome("Exited", "The container ended with exit code 0.", 0)
        gives = "it has no exit code" if code is None else f"the exit code is {code}"
        return JobOutcome("Crashed", f"AWS Batch reports that the job succeeded, but {gives}: {text}", code)
    if (ours := OURS.match(job.get("statusReason") or "")) and is_state_name(ours[1]):
        return JobOutcome(ours[1], ours[2], code)
    if RECLAIMED.search(text):
        return JobOutcome("Reclaimed", f"AWS reclaimed the host while the job was running: {text}")
    if limit_s := overrun_s(job):
        return JobOutcome("TimedOut", f"AWS Batch stopped the job after timeout_s {limit_s}: {text}", code)
    if TOO_LONG.search(text):
        return JobOutcome("Unfit", f"The job's env and command are longer than AWS allows: {text}")
    if PULL_FAILED.search(text):
        image = job.get("container", {}).get("image", "?")
        return JobOutcome("ImagePullFailed", f"The image {image} could not be pulled: {text}")
    if MISCONFIGURED.search(text):  # a queue's own time limit has cancelled the job
        return JobOutcome("Unschedulable", f"No machine of the queue can run the job: {text}", code)
    if NO_MACHINES.search(text):
        return JobOutcome("NoCapacity", f"AWS had no machine for the job: {text}", code)
    return _terminated(job, text, code) or _crashed(job, text, code)


def overrun_s(job: Job) -> int:
    """Return the timeout that the last attempt reached, or 0.

    [doc] Batch user guide, job timeouts: counted from startedAt. Batch's sentence for it is not documented,
    so the times decide.
    """
    limit_s = int(job.get("timeout", {}).get("attemptDurationSeconds") or 0)
    attempt = (job.get("attempts") or [job])[-1]
    started_ms, stopped_ms = attempt.get("startedAt"), attempt.get("stoppedAt")
    if not (limit_s and started_ms and stopped_ms):
        return 0
    return limit_s if stopped_ms - started_ms >= limit_s * 1000 else 0


def _terminated(job: Job, text: str, code: int | None) -> JobOutcome | None:
    """Return None if the container ended by itself.

    [doc] Batch API reference, JobDetail, isTerminated and isCancelled; TerminateJob: its caller's reason
    becomes the job's statusReason.
    """
    ended = job.get("isTerminated") or job.get("isCancelled")
    if not ended or code not in ENDED_BY_OTHERS or OUT_OF_MEMORY.search(text):
        return None
    return JobOutcome("Cancelled", f"The AWS Batch job was terminated outside of Prefect: {text}", code)


def _crashed(job: Job, text: str, code: int | None) -> JobOutcome:
    if OUT_OF_MEMORY.search(text) or code == KILLED:
        limit = f"memory_mib {requirement(job, 'MEMORY')} was not enough"
        text = f"The container ran out of memory ({limit}, exit code {code}): {text}"
        return JobOutcome("OutOfMemory", text, code)
    if code is None:
        return JobOutcome("Crashed", f"The job ended without an exit code: {text}")
    return JobOutcome("Crashed", f"The container ended with exit code {code}: {text}", code)


def exit_code(job: Job) -> int | None:
    code: int | None = last_container(job).get("exitCode")
    return code


def last_container(job: Job) -> Job:
    """Return the last attempt's container: it is in both places, or only in `container`."""
    attempts = job.get("attempts") or []
    container: Job = (attempts[-1] if attempts else job).get("container", {})
    return container


def reason(job: Job) -> str:
    """Return AWS's sentences about the last attempt's end, each once."""
    attempts = job.get("attempts") or [{}]
    texts = (job.get("statusReason"), attempts[-1].get("statusReason"), last_container(job).get("reason"))
    return " / ".join(dict.fromkeys(text.strip() for text in texts if text)) or "AWS gave no reason"


def lost_attempts(job: Job) -> list[str]:
    """Return AWS's reason for each attempt on a reclaimed host; empty for the others."""
    reasons = []
    for attempt in job.get("attempts") or []:
        container = attempt.get("container", {})
        text = f"{attempt.get('statusReason') or ''} {container.get('reason') or ''}".strip()
        reasons.append(text if RECLAIMED.search(text) else "")
    return reasons


def requirement(job: Job, kind: str) -> int:
    """Return a job's required VCPU, MEMORY (MiB) or GPU."""
    container = job.get("container", {})
    for item in container.get("resourceRequirements", []):
        if item["type"] == kind:
            return int(float(item["value"]))
    older = {"VCPU": "vcpus", "MEMORY": "memory"}.get(kind, "")
    return int(container.get(older) or 0)
