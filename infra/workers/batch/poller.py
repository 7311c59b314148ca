"""One poller for all jobs of a region."""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from .errors import sentence, trouble
from .reasons import TERMINAL, Job

IDS_A_CALL = 100
PATIENT_POLLS = 10  # DescribeJobs can miss a job for a while after SubmitJob (Netflix/metaflow PR #160)
SLOWDOWN = 12  # the highest factor on intervals under throttling or without a network
AGE_SHARE = 0.05  # of a status's age is the interval: 3 s for a minute, within the limits


@dataclass(eq=False, slots=True)
class JobWatch:
    """The newest description of one job."""

    job_id: str
    changed_at: float
    due: float = 0
    status: str = ""
    missing: int = 0
    latest: Job | None = None
    lost: str = ""
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def next(self) -> Job | None:
        """Wait for the next description; return None, with the reason in `lost`, if AWS lost the job."""
        await self._news.wait()
        self._news = anyio.Event()
        return None if self.lost else self.latest

    def wake(self) -> None:
        """Return the latest description from `next` once more."""
        if self.latest is not None or self.lost:
            self._news.set()

    def tell(self, job: Job, now: float) -> None:
        if job["status"] != self.status:
            self.status, self.changed_at = job["status"], now
        self.latest, self.missing = job, 0
        self._news.set()

    def miss(self, why: str) -> None:
        """Count an answer without the job, which can happen for a while."""
        self.missing += 1
        if self.missing > PATIENT_POLLS:
            self.lost = why
            self._news.set()


class Poller:
    """Describes all watched jobs of a region with as few calls as possible."""

    def __init__(
        self,
        describe: Callable[[list[str]], Awaitable[list[Job]]],
        fastest_s: float,
        slowest_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`describe` makes one DescribeJobs call; `warn` gets a sentence if it keeps failing."""
        self._describe = describe
        self._fastest_s, self._slowest_s = fastest_s, slowest_s
        self._clock, self._warn = clock, warn
        self._watches: dict[str, JobWatch] = {}
        self._strain = 1.0
        self._said = ""

    def watch(self, job_id: str) -> JobWatch:
        self._watches[job_id] = JobWatch(job_id, self._clock())
        return self._watches[job_id]

    def forget(self, job_id: str) -> None:
        self._watches.pop(job_id, None)

    def hurry(self, job_id: str) -> None:
        if watch := self._watches.get(job_id):
            watch.due = 0

    async def run(self) -> None:
        while True:
            await self.round()
            await anyio.sleep(self.pause_s)

    @property
    def pause_s(self) -> float:
        return self._fastest_s * self._strain

    async def round(self) -> None:
        """Describe the jobs that are due, and those due next in a call's free places (100 ids)."""
        now = self._clock()
        due = sum(watch.due <= now for watch in self._watches.values())
        if not due:
            return
        places = math.ceil(due / IDS_A_CALL) * IDS_A_CALL
        soonest = sorted(self._watches.values(), key=lambda watch: watch.due)[:places]
        strained = False
        for start in range(0, len(soonest), IDS_A_CALL):
            strained |= not await self._look_at(soonest[start : start + IDS_A_CALL])
        self._strain = min(self._strain * 2, SLOWDOWN) if strained else max(self._strain / 2, 1.0)

    async def _look_at(self, chunk: list[JobWatch]) -> bool:
        """Describe up to 100 jobs; return True if AWS answered."""
        try:
            jobs = {job["jobId"]: job for job in await self._describe([watch.job_id for watch in chunk])}
        except Exception as error:
            self._failed(chunk, error)
            return False
        self._said = ""
        now = self._clock()
        for watch in chunk:
            if (job := jobs.get(watch.job_id)) is None:
                watch.miss("AWS Batch no longer knows the job")
            else:
                watch.tell(job, now)
            if watch.lost or watch.status in TERMINAL:
                self._watches.pop(watch.job_id, None)
            watch.due = now + self.interval_s(now - watch.changed_at)
        return True

    def _failed(self, chunk: list[JobWatch], error: Exception) -> None:
        """Count a failed call; only a lasting refusal ends the watches, because jobs continue."""
        why = sentence(error, "batch:DescribeJobs")
        if why != self._said and trouble(error) != "throttled":
            self._warn(f"{why} The jobs continue; the worker will try again.")
            self._said = why
        if trouble(error) in ("denied", "refused"):
            for watch in chunk:
                watch.miss(why)
                if watch.lost:
                    self._watches.pop(watch.job_id, None)

    def interval_s(self, age_s: float) -> float:
        return min(max(age_s * AGE_SHARE, self._fastest_s), self._slowest_s)
