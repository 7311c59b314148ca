"""One attempt of a job: a real container, its log in CloudWatch, and its end in AWS's words."""

import contextlib
import json
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from . import reasons
from .container import batch_variables, container_options, log_target
from .control import control

LOOK_S = 0.1
LONGEST_OVERRIDES = 8192
ENDED = ("exited", "dead")  # of a container


@dataclass(frozen=True)
class Place:
    environment: Any
    instance_type: str
    instance_id: str = field(default_factory=lambda: f"i-{uuid.uuid4().hex[:17]}")


@dataclass
class Attempt:
    number: int
    place: Place
    task: str = field(default_factory=lambda: uuid.uuid4().hex)
    log_stream: str | None = None
    started_ms: int | None = None
    stopped_ms: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    status_reason: str | None = None
    reclaimed: bool = False
    timed_out: bool = False


def milliseconds() -> int:
    return int(time.time() * 1000)


def run(job, attempt: Attempt) -> None:
    try:
        if too_long(job, attempt):
            attempt.status_reason = reasons.OVERRIDES_TOO_LONG
        elif not start_and_watch(job, attempt):
            attempt.status_reason = reasons.TASK_FAILED_TO_START
    finally:
        attempt.stopped_ms = milliseconds()


def too_long(job, attempt: Attempt) -> bool:
    """Return whether ECS refuses the overrides; [belief] Batch's own variables count like the user's."""
    own = {"name": "default", "environment": [*job.container_overrides.get("environment", [])]}
    own["environment"] += [
        {"name": name, "value": value} for name, value in batch_variables(job, attempt).items()
    ]
    overrides = job.container_overrides | own
    return len(json.dumps({"containerOverrides": [overrides]}, separators=(",", ":"))) > LONGEST_OVERRIDES


def start_and_watch(job, attempt: Attempt) -> bool:
    group, stream = log_target(job, attempt)
    if fault := control.fault("pull", job.job_name, attempt.number):
        fault.hits += 1
        denied = reasons.PULL_DENIED.format(image=job.image)
        attempt.reason = fault.reason or reasons.CANNOT_PULL.format(detail=denied)
        return False
    if group is None:
        attempt.reason = reasons.CANNOT_START.format(detail=reasons.NO_LOG_GROUP)
        return False
    with contextlib.ExitStack() as stack:
        try:
            options = container_options(job, attempt, stack)
            container = job.docker_client.containers.run(detach=True, **options)
        except Exception as error:  # docker-py has many; what matters is that no container runs
            attempt.reason = why_not_started(error)
            return False
        stack.callback(remove, container)
        attempt.log_stream, attempt.started_ms = stream, milliseconds()
        job.running(attempt)
        Watch(job, attempt, container, group, stream).until_the_end()
    return True


def why_not_started(error: Exception) -> str:
    if isinstance(error, ClientError):
        return reasons.NO_SECRET.format(detail=error)[:255]
    text = str(getattr(error, "explanation", None) or error)
    pulling = type(error).__name__ == "ImageNotFound" or "pull" in text or "initializing source" in text
    return (reasons.CANNOT_PULL if pulling else reasons.CANNOT_START).format(detail=text)[:255]


def remove(container) -> None:
    with contextlib.suppress(Exception):  # the session's end removes leftovers by their label
        container.remove(force=True)


class Watch:
    """Follow one container: its lines, its end, and faults that stop it earlier."""

    def __init__(self, job, attempt: Attempt, container, group: str, stream: str) -> None:
        self.job, self.attempt, self.container = job, attempt, container
        self.group, self.stream = group, stream
        self.ended, self.line_seen = threading.Event(), threading.Event()
        self.fault = control.fault("reclaim", job.job_name, attempt.number)
        self.started = time.monotonic()

    def until_the_end(self) -> None:
        followers = [threading.Thread(target=work, daemon=True) for work in (self.follow_log, self.await_end)]
        for follower in followers:
            follower.start()
        killed = None
        while not self.ended.wait(LOOK_S) and not (killed := self.why_killed()):
            pass
        if killed:
            self.stop()
        for follower in followers:
            follower.join(30)
        self.conclude(killed)

    def why_killed(self) -> str | None:
        age_s = time.monotonic() - self.started
        limit_s = self.job.timeout_s
        if self.job.stop:
            return self.job.job_stopped_reason or "terminated"
        if limit_s and age_s > limit_s:
            self.attempt.timed_out = True
            return reasons.TIMED_OUT
        if (fault := self.fault) and (self.line_seen.is_set() if fault.after_line else age_s > fault.after_s):
            fault.hits += 1
            self.attempt.reclaimed = True
            return fault.reason or reasons.HOST_TERMINATED.format(instance=self.attempt.place.instance_id)
        return None

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL: docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html."""
        grace_s = 0 if self.job.abandoned else control.stop_grace_s
        with contextlib.suppress(Exception):  # it can have ended by itself
            self.container.stop(timeout=grace_s)

    def await_end(self) -> None:
        """Poll for the end: podman 4.3 answers Docker's wait by polling at half a core of CPU."""
        try:
            while (state := self.container.attrs["State"])["Status"] not in ENDED:
                time.sleep(LOOK_S)
                self.container.reload()
            self.attempt.exit_code = state["ExitCode"]
        finally:
            self.ended.set()

    def conclude(self, killed: str | None) -> None:
        attempt = self.attempt
        attempt.status_reason = killed or reasons.ESSENTIAL_EXITED
        if attempt.reclaimed:
            attempt.exit_code = (
                None  # [thread] nextflow #4096, nextstrain/cli #145: a lost host tells no code
            )
        elif attempt.exit_code == 137 and not killed and self.out_of_memory():
            attempt.reason = reasons.OUT_OF_MEMORY

    def out_of_memory(self) -> bool:
        """Return whether memory ran out; podman 4.3 misses it under cgroups v1, so ask the kernel too."""
        self.container.reload()
        if self.container.attrs["State"].get("OOMKilled"):
            return True
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace").stdout
        return any("oom-kill" in line and self.container.id in line for line in kernel.splitlines())

    def follow_log(self) -> None:
        rest, seen = b"", 0
        for chunk in self.container.logs(stream=True, follow=True):
            seen += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            self.put(lines)
        self.ended.wait()
        self.put(
            (rest + self.container.logs()[seen:]).split(b"\n")
        )  # podman 4.3 can break off a followed log

    def put(self, lines: list[bytes]) -> None:
        texts = [line.decode(errors="replace").rstrip("\r") for line in lines]
        events = [{"timestamp": milliseconds(), "message": text} for text in texts if text]
        if events:
            self.job.log_backend.put_log_events(self.group, self.stream, events)
        wanted = self.fault and self.fault.after_line
        if wanted and any(wanted in text for text in texts):
            self.line_seen.set()
