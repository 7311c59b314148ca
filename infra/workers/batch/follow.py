"""One job, followed from its submission to its end."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from prefect.client.schemas.objects import FlowRun

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.outcome import JobOutcome
from infra.workers.batch.configuration import AwsBatchJobConfiguration
from infra.workers.batch.errors import sentence
from infra.workers.batch.logs import Tail
from infra.workers.batch.poller import JobWatch, Poller
from infra.workers.batch.reasons import TERMINAL, Job, ending, lost_attempts
from infra.workers.batch.region import RegionCalls, now_ms
from infra.workers.batch.settings import BatchSettings
from infra.workers.batch.stuck import diagnose, given_up, look

CANCELLED = JobOutcome("Cancelled", "Cancelled from Prefect; the AWS Batch job was terminated.")
REASON_LENGTH = 1000  # of TerminateJob's reason; it comes back as the job's statusReason


@dataclass(eq=False)
class BatchFollow:
    """One run's job, and what was said about it so far."""

    run: FlowRun
    job_id: str
    asked: AwsBatchJobConfiguration
    region: RegionCalls
    poller: Poller
    tail: Tail
    pace: BatchSettings
    log: logging.LoggerAdapter[Any]
    note: Callable[[dict[str, float]], Awaitable[None]]  # takes what the run's labels shall say
    stop: JobOutcome | None = None  # why the worker ends the job itself
    asked_to_stop: bool = False
    handed_over: bool = False
    since: float = field(default_factory=time.monotonic)
    _watch: JobWatch | None = None
    _status: str = ""
    _attempts: int = 0
    _explained: str = ""
    _doubted: bool = False
    _placed_ms: int | None = None

    def cancel(self) -> None:
        """The run was cancelled in Prefect: end the job, whatever it does."""
        if self.stop is None or self.stop.name != "Cancelled":
            self.stop = CANCELLED
        self._hurry()

    def hand_over(self) -> None:
        """Another worker follows the run."""
        self.handed_over = True
        self._hurry()

    def _hurry(self) -> None:
        self.poller.hurry(self.job_id)
        if self._watch:
            self._watch.wake()

    async def to_the_end(self) -> JobOutcome | None:
        """Follow the job until it has ended; None when another worker follows it from now on."""
        self._watch = self.poller.watch(self.job_id)
        try:
            while True:
                job = await self._watch.next()
                if self.handed_over:
                    return None
                if job is None:
                    return await self._give_up(self._watch.lost)
                if job["status"] in TERMINAL:
                    return self._ended(job)
                await self._look_at(job)
        finally:
            self.poller.forget(self.job_id)

    async def _look_at(self, job: Job) -> None:
        before = self._status
        self._tell_changes(job)
        if job["status"] == "STARTING" and before != "STARTING":
            self._placed_ms = now_ms()
        if job["status"] == "RUNNING" and before != "RUNNING":
            await self.note(stages_s(job, self._placed_ms))
        if job["status"] == "RUNNABLE" and self.stop is None:
            await self._waits(job)
        if self.stop is not None and not self.asked_to_stop:
            await self._terminate(self.stop)

    def _tell_changes(self, job: Job) -> None:
        self.tail.learn(job)
        if job["status"] != self._status:
            self.log.info("AWS Batch job %s is %s.", self.job_id, job["status"])
            self._status = job["status"]
        lost = lost_attempts(job)
        allowed = job.get("retryStrategy", {}).get("attempts", self.asked.attempts)
        for number, said in enumerate(lost[self._attempts :], start=self._attempts + 1):
            if said and number < allowed:
                self.log.warning(
                    "Attempt %s of %s lost its host (%s); AWS Batch starts the job again.",
                    number,
                    allowed,
                    said,
                )
        self._attempts = len(lost)

    def _ended(self, job: Job) -> JobOutcome:
        self._tell_changes(job)
        found = ending(job)
        return self.stop if self.stop is not None and found.name != "Exited" else found

    async def _waits(self, job: Job) -> None:
        """RUNNABLE: end what can never run, explain what waits, and give up at the deadline."""
        waited_s = (now_ms() - waiting_since_ms(job)) / 1000
        said = job.get("statusReason") or ""
        late = waited_s > self.asked.capacity_deadline_s
        doubted = self._doubted and waited_s > self.pace.doubt_s
        if not (late or doubted or (said and said != self._explained) or self._unexplained(waited_s, said)):
            return
        found = await diagnose(self.region, job)
        lasts = found.kind == "doubtful" and waited_s > self.pace.doubt_s
        if found.kind == "misconfigured" or lasts or (late and found.kind == "broken"):
            self.stop = JobOutcome("Unschedulable", found.message)
        elif late:
            place = None
            try:
                place = await look(self.region, job["jobQueue"])
            except JobRefused as refusal:
                self.log.warning("%s", refusal)
            message = given_up(found, place, self.region, self.asked.capacity_deadline_s)
            self.stop = JobOutcome("NoCapacity", message)
        else:
            left_s = self.asked.capacity_deadline_s - waited_s
            self.log.warning(
                "The job has waited %.0f s, %.0f s are left. %s", waited_s, left_s, found.message
            )
        self._explained, self._doubted = said or "looked", found.kind == "doubtful"

    def _unexplained(self, waited_s: float, said: str) -> bool:
        return not said and not self._explained and waited_s > self.pace.diagnose_s

    async def _terminate(self, why: JobOutcome) -> None:
        """Ask Batch to end the job; asked again at the next look where the call failed."""
        reason = f"{why.name}: {why.message}"[:REASON_LENGTH]
        try:
            await self.region.call("batch", "terminate_job", jobId=self.job_id, reason=reason)
        except Exception as error:
            self.log.warning("%s The job is not terminated yet.", sentence(error, "batch:TerminateJob"))
            return
        self.asked_to_stop = True
        self.poller.hurry(self.job_id)

    async def _give_up(self, why: str) -> JobOutcome:
        """AWS tells nothing of the job any more; it may still cost money, so it is ended if possible."""
        await self._terminate(self.stop or JobOutcome("Crashed", why))
        return self.stop or JobOutcome(
            "Crashed", f"{why.rstrip('.')} (job {self.job_id}); how it ended is not known."
        )


def waiting_since_ms(job: Job) -> int:
    """When a job began to wait for a machine: at its creation, or when its last attempt ended."""
    ends = [attempt.get("stoppedAt") or 0 for attempt in job.get("attempts") or []]
    return max([job.get("createdAt") or now_ms(), *ends])


def stages_s(job: Job, placed_ms: int | None) -> dict[str, float]:
    """Seconds of a running job in RUNNABLE, and in STARTING where it was seen there; AWS tells no more."""
    created_ms, started_ms = job.get("createdAt"), job.get("startedAt")
    if not created_ms or not started_ms:
        return {}
    placed_ms = min(max(placed_ms or started_ms, created_ms), started_ms)
    found = {"aws-batch.runnable_s": (placed_ms - created_ms) / 1000}
    return found | (
        {"aws-batch.starting_s": (started_ms - placed_ms) / 1000} if placed_ms < started_ms else {}
    )
