"""One AWS Batch job, followed to its end."""

import datetime as dt
from dataclasses import dataclass

from ..base.follow import JobFollow
from ..base.job_configuration import JobRefused
from ..base.outcome import JobOutcome, MachineTime, StartTimes
from .configuration import AwsBatchJobConfiguration
from .errors import sentence
from .logs import LogReader, Tail
from .poller import JobWatch, Poller
from .reasons import TERMINAL, Job, lost_attempts, outcome_of
from .region import RegionCalls, now_ms
from .settings import BatchSettings
from .stuck import diagnose, given_up, look

STAGE_LABELS = "aws-batch.runnable_s", "aws-batch.starting_s"
REASON_LENGTH = 1000  # of TerminateJob's reason; it comes back as the job's statusReason
LATE_LINES_S = 2  # CloudWatch shows a container's last lines about this long after its end


@dataclass(eq=False, kw_only=True)
class BatchFollow(JobFollow):
    """One run's job, and its observed state."""

    configuration: AwsBatchJobConfiguration
    region: RegionCalls
    poller: Poller
    reader: LogReader
    tail: Tail
    settings: BatchSettings
    _watch: JobWatch | None = None
    _status: str = ""
    _attempts: int = 0
    _explained: str = ""
    _doubted: bool = False
    _placed_ms: int | None = None

    @property
    def cancelled_message(self) -> str:
        return "Cancelled from Prefect; the AWS Batch job was terminated."

    def wake(self) -> None:
        self.poller.hurry(self.job_id)
        if self._watch:
            self._watch.wake()

    async def to_the_end(self) -> JobOutcome | None:
        self._watch = self.poller.watch(self.job_id)
        self.reader.follow(self.tail)
        try:
            while True:
                job = await self._watch.next()
                if self.handed_over:
                    return None
                if job is None:
                    return await self._give_up(self._watch.lost)
                if job["status"] in TERMINAL:
                    self._log_changes(job)
                    self.machine_time = machine_time(job)
                    outcome = outcome_of(job)
                    return outcome if outcome.name == "Exited" else self.end_of(outcome)
                await self._look_at(job)
        finally:
            self.poller.forget(self.job_id)

    async def show_last_lines(self) -> None:
        await self.reader.finish(self.tail, max(self.settings.poll_s, LATE_LINES_S))
        if self.tail.closed:
            self.log.warning("The container's log cannot be shown: %s", self.tail.closed)

    def close(self) -> None:
        self.reader.leave(self.tail)

    async def _look_at(self, job: Job) -> None:
        before = self._status
        self._log_changes(job)
        if job["status"] == "STARTING" and before != "STARTING":
            self._placed_ms = now_ms()
        runs = job["status"] == "RUNNING" and before != "RUNNING"
        if runs and (times := start_times(job, self._placed_ms)):
            await self.set_labels(times.labels(*STAGE_LABELS) | machine_time(job).labels)
        if job["status"] == "RUNNABLE" and self.stop is None:
            await self._examine_wait(job)
        if self.stop is not None and not self.stopped:
            await self._terminate(self.stop)

    def _log_changes(self, job: Job) -> None:
        self.tail.learn(job)
        if job["status"] != self._status:
            self.log.info("AWS Batch job %s is %s.", self.job_id, job["status"])
            self._status = job["status"]
        lost = lost_attempts(job)
        allowed = job.get("retryStrategy", {}).get("attempts", self.configuration.attempts)
        for number, reason in enumerate(lost[self._attempts :], start=self._attempts + 1):
            if reason and number < allowed:
                text = "Attempt %s of %s lost its host (%s); AWS Batch starts the job again."
                self.log.warning(text, number, allowed, reason)
        self._attempts = len(lost)

    async def _examine_wait(self, job: Job) -> None:
        """End a RUNNABLE job that can never run, explain a waiting one, and give up at the deadline."""
        waited_s = (now_ms() - waiting_since_ms(job)) / 1000
        reason = job.get("statusReason") or ""
        deadline_s = self.configuration.capacity_deadline_s
        late = waited_s > deadline_s
        doubted = self._doubted and waited_s > self.settings.doubt_s
        unexplained = not reason and not self._explained and waited_s > self.settings.diagnose_s
        is_news = (reason and reason != self._explained) or unexplained
        if not (late or doubted or is_news):
            return
        diagnosis = await diagnose(self.region, job)
        lasts = diagnosis.kind == "doubtful" and waited_s > self.settings.doubt_s
        if diagnosis.kind == "misconfigured" or lasts or (late and diagnosis.kind == "broken"):
            self.stop = JobOutcome("Unschedulable", diagnosis.message)
        elif late:
            queue = None
            try:
                queue = await look(self.region, job["jobQueue"])
            except JobRefused as refusal:
                self.log.warning("%s", refusal)
            self.stop = JobOutcome("NoCapacity", given_up(diagnosis, queue, self.region, deadline_s))
        else:
            text = "The job has waited for %.0f s and will be cancelled in %.0f s. %s"
            self.log.warning(text, waited_s, deadline_s - waited_s, diagnosis.message)
        self._explained, self._doubted = reason or "looked", diagnosis.kind == "doubtful"

    async def _terminate(self, outcome: JobOutcome) -> None:
        """Ask for the job's end; the next check repeats a failed call."""
        reason = f"{outcome.name}: {outcome.message}"[:REASON_LENGTH]
        try:
            await self.region.call("batch", "terminate_job", jobId=self.job_id, reason=reason)
        except Exception as error:
            self.warn_limited(f"{sentence(error, 'batch:TerminateJob')} The job is not terminated yet.")
            return
        self.stopped = True
        self.poller.hurry(self.job_id)

    async def _give_up(self, reason: str) -> JobOutcome:
        """End a job that AWS no longer reports, if possible: it might still cost money."""
        await self._terminate(self.stop or JobOutcome("Unseen", reason))
        limit = f"might still be running, until timeout_s {self.configuration.timeout_s} at most: terminate it by hand"
        what = "was terminated; how it ended is not known" if self.stopped else limit
        return self.end_of(JobOutcome("Unseen", f"{reason.rstrip('.')}. Job {self.job_id} {what}."))


def waiting_since_ms(job: Job) -> int:
    """Return the job's creation, or its last attempt's end."""
    ends = [attempt.get("stoppedAt") or 0 for attempt in job.get("attempts") or []]
    return max([job.get("createdAt") or now_ms(), *ends])


def machine_time(job: Job) -> MachineTime:
    if not job.get("startedAt"):
        return MachineTime()
    return MachineTime(_time(job.get("createdAt")), _time(job.get("stoppedAt")))


def _time(ms: int | None) -> dt.datetime | None:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC) if ms else None


def start_times(job: Job, placed_ms: int | None) -> StartTimes | None:
    """Return a running job's times in RUNNABLE and, if it was seen there, in STARTING."""
    created_ms, started_ms = job.get("createdAt"), job.get("startedAt")
    if not created_ms or not started_ms:
        return None
    placed_ms = min(max(placed_ms or started_ms, created_ms), started_ms)
    pull_s = (started_ms - placed_ms) / 1000 if placed_ms < started_ms else None
    return StartTimes((placed_ms - created_ms) / 1000, pull_s)
