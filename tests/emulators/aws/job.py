"""A Batch job as AWS runs it: states, queueing, attempts, retries, reasons.

moto 5.2.5 (moto/batch/models.py) starts one container and knows SUCCEEDED or FAILED. AWS queues, diagnoses
and retries: docs.aws.amazon.com/batch/latest/userguide/job_states.html and job_retries.html, [doc].
"""

import copy
import threading
import time
import traceback
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from moto.batch import models

from . import attempt as attempts
from . import reasons
from .attempt import Attempt, Place
from .control import control
from .fit import choices, largest_vcpus, misconfiguration, needs_of, vcpus_of
from .retry import is_retried

ENDED = ("SUCCEEDED", "FAILED")
LONGEST_WAIT_S = 0.5

asked: ContextVar[dict[str, Any] | None] = ContextVar(
    "asked", default=None
)  # the SubmitJob request that makes a job
placing = threading.Lock()


class Job(models.Job):
    """One job; its thread is the job's life."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._state = "SUBMITTED"
        super().__init__(*arguments, **options)
        request = asked.get() or {}
        self.retry_strategy = request.get("retryStrategy") or self.job_definition.retry_strategy or {}
        # moto appends to the request's own list at every DescribeJobs; nothing here changes these
        self.container_overrides = copy.deepcopy(self.container_overrides)
        self.properties: dict[str, Any] = self.job_definition.container_properties or {}
        self.status_reason: str | None = None
        self.tries: list[Attempt] = []
        self.place: Place | None = None
        self.abandoned = False
        self.polls_until_seen = control.forget_polls

    # moto's state comes from a managed transition; ours is set by the thread below.
    @property
    def status(self) -> str:
        return self._state

    @status.setter
    def status(self, value: str) -> None:
        self._state = value

    @property
    def log_backend(self) -> Any:
        return self._log_backend

    @property
    def image(self) -> str:
        return self.properties.get("image", "")

    @property
    def command(self) -> list[str]:
        wanted = self.container_overrides.get("command") or self.properties.get("command") or []
        return self._add_parameters_to_command(wanted)

    @property
    def environment(self) -> dict[str, str]:
        sources = (self.properties.get("environment"), self.container_overrides.get("environment"))
        return {entry["name"]: entry.get("value", "") for source in sources for entry in source or []}

    @property
    def timeout_s(self) -> int | None:
        return self._get_attempt_duration()

    def terminate(self, reason: str) -> None:
        super().terminate(reason)
        control.notify()

    def abandon(self) -> None:
        self.abandoned = True
        self.terminate("the account was reset")

    def become(self, state: str, reason: str | None = None) -> None:
        self._state, self.status_reason = state, reason
        control.notify()

    def running(self, attempt: Attempt) -> None:
        self.job_started_at = datetime.now()
        self.become("RUNNING")

    def run(self) -> None:
        try:
            self.live()
        except Exception as error:  # a bug of the emulator must not look like a stuck job
            traceback.print_exc()
            self.end("FAILED", reasons.BROKEN.format(error=error))

    def live(self) -> None:
        if not self.properties:
            return self.end("FAILED", reasons.NO_MULTINODE)
        while True:
            attempt = self.queue_for_place()
            if attempt is None:
                return self.end("FAILED", self.job_stopped_reason)
            self.become("STARTING")
            try:
                attempts.run(self, attempt)
            finally:
                self.place = None
            if not self.stop and attempt.exit_code == 0 and not attempt.timed_out:
                return self.end("SUCCEEDED", attempt.status_reason)
            if self.stop or attempt.timed_out or not is_retried(self.retry_strategy, attempt):
                return self.end("FAILED", self.job_stopped_reason or attempt.status_reason)

    def queue_for_place(self) -> Attempt | None:
        """Wait in RUNNABLE for room; return None if the job is cancelled first."""
        number = len(self.tries) + 1
        self.become("RUNNABLE")
        since = time.monotonic()
        never = misconfiguration(self.job_queue, needs_of(self))
        while not self.stop:
            waited_s = time.monotonic() - since
            first = self.at_head()
            blocked, reason = self.blocked(number, never)
            # [doc] job_stuck_in_runnable: only the job at the head of the queue gets the reason why it waits
            self.status_reason = reason if first else None
            if reason and first and self.over_time_limit(reason, waited_s):
                self.terminate(reasons.TIME_LIMIT.format(reason=reason.split(" - ")[0]))
            elif first and not blocked and waited_s >= control.queued_s and self.take_place():
                self.tries.append(Attempt(number, self.place))
                return self.tries[-1]
            control.wait(min(LONGEST_WAIT_S, 0.05 + waited_s / 4))
        return None

    def blocked(self, number: int, never: str | None) -> tuple[bool, str | None]:
        """Return whether the job must wait, and set AWS's reason."""
        if never:
            return True, never
        if fault := control.fault("stuck", self.job_name, number):
            fault.hits = 1
            names = [name for _, name in choices(self.job_queue, needs_of(self))]
            return True, fault.reason or reasons.INSUFFICIENT_CAPACITY.format(instance_type=names[0])
        return False, None

    def at_head(self) -> bool:
        """Return whether the job is first: RUNNABLE blocks those behind it (FIFO), [doc] job_stuck_in_runnable."""
        return next(job for job in self.job_queue.jobs if job.status == "RUNNABLE") is self

    def over_time_limit(self, reason: str, waited_s: float) -> bool:
        """Return whether jobStateTimeLimitActions cancels the job at the head, [doc] CreateJobQueue."""
        return any(
            limit["state"] == "RUNNABLE"
            and reason.startswith(limit["reason"])
            and waited_s >= int(limit["maxTimeSeconds"]) * control.time_limit_scale
            for limit in getattr(self.job_queue, "time_limits", [])
        )

    def take_place(self) -> bool:
        with placing:
            living = [job.place for job in list(self.all_jobs.values()) if job.place]
            if len(living) >= control.containers_at_once:
                return False
            for environment, name in choices(self.job_queue, needs_of(self)):
                used = sum(
                    vcpus_of(place.instance_type) for place in living if place.environment is environment
                )
                if used + vcpus_of(name) <= largest_vcpus(environment):
                    self.place = Place(environment, name)
                    return True
        return False

    def end(self, state: str, reason: str | None) -> None:
        self.job_stopped, self.job_stopped_at = True, datetime.now()
        self.job_stopped_reason = reason
        self.become(state, reason)
