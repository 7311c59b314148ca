"""What each lane has still to measure, and what follows when one of its jobs ends: bookkeeping, no Prefect."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from tasks.catalog import Hardware
from workloads.harness.record import Record, Verdict
from workloads.harness.runs import Repeat

TRIES = 2  # how often a repeat may be in measurement while its job dies
FRUITLESS = 2  # after so many jobs in a row without one record, the lane is given up
JOB_LIMIT = 1000  # repeats in one job, so that its parameters stay below the API's limit of 512 KB


@dataclass(slots=True)
class Job:
    """One flow run of a lane and what it has still to deliver, in the order in which it measures."""

    flow_run_id: UUID
    missing: dict[str, Repeat]
    submitted_at: float
    started_at: float | None = None
    delivered: int = 0


@dataclass(slots=True)
class Lane:
    """The repeats of one piece of hardware that somebody waits for.

    Attributes:
        waiting: asked for and in no job, by id.
        asked_at: when the newest of them was asked for, seconds on the caller's clock.
        tries: how often a repeat was being measured when its job died.
        fruitless: jobs in a row that died without a record.
        spent_s: seconds that ended jobs ran.
    """

    machine: Hardware
    waiting: dict[str, Repeat] = field(default_factory=dict)
    asked_at: float = 0.0
    job: Job | None = None
    tries: dict[str, int] = field(default_factory=dict)
    fruitless: int = 0
    spent_s: float = 0.0

    @property
    def box(self) -> str:
        """Lanes of one box take turns."""
        return self.machine.box or self.machine.name

    def ask(self, repeats: Iterable[Repeat], now: float) -> None:
        """Put repeats on the list, unless they are in a job already."""
        running = self.job.missing if self.job else {}
        self.waiting |= {repeat.id: repeat for repeat in repeats if repeat.id not in running}
        self.asked_at = now

    def next_job(self) -> list[Repeat]:
        """The repeats of the next job, taken off the list: one that was in a dying job alone, else all that fit."""
        ordered = sorted(self.waiting.values(), key=lambda repeat: repeat.order)
        suspects = [repeat for repeat in ordered if self.tries.get(repeat.id)]
        chosen = suspects[:1] or ordered[: min(self.machine.cells_per_job or JOB_LIMIT, JOB_LIMIT)]
        for repeat in chosen:
            del self.waiting[repeat.id]
        return chosen

    def delivered(self, repeat_id: str) -> None:
        """A record has come."""
        self.waiting.pop(repeat_id, None)
        if self.job and self.job.missing.pop(repeat_id, None):
            self.job.delivered += 1
            self.fruitless = 0

    def job_ended(self, now: float, reason: str) -> tuple[list[Repeat], list[Record]]:
        """The job is over: returns the repeats to ask for again, and records for those that are given up."""
        job, self.job = self.job, None
        if job is None:
            return [], []
        self.spent_s += now - (now if job.started_at is None else job.started_at)
        if not job.missing:
            return [], []
        self.fruitless = 0 if job.delivered else self.fruitless + 1
        if self.fruitless >= FRUITLESS:
            everything = [*job.missing.values(), *self.waiting.values()]
            self.waiting.clear()
            text = f"{FRUITLESS} lane jobs in a row ended without a record; the last: {reason}"
            return [], [repeat.failed(Verdict.CRASHED, text) for repeat in everything]
        lost = list(job.missing.values())
        in_hand = lost[0]
        self.tries[in_hand.id] = self.tries.get(in_hand.id, 0) + 1
        if self.tries[in_hand.id] < TRIES:
            return lost, []
        text = f"its lane job died while measuring it, {TRIES} times, the second time alone; {reason}"
        return lost[1:], [in_hand.failed(Verdict.CRASHED, text)]

    def give_up(self, verdict: Verdict, reason: str) -> list[Record]:
        """Records for everything that is still to come: nothing more will be measured here."""
        rest = [*(self.job.missing.values() if self.job else []), *self.waiting.values()]
        self.waiting.clear()
        self.job = None
        return [repeat.failed(verdict, reason) for repeat in rest]
