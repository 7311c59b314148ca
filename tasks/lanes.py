"""What each lane has still to measure, and what follows when a job of it ends: bookkeeping, no Prefect."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from tasks.catalog import Hardware
from workloads.harness.record import Record, Verdict
from workloads.harness.runs import Repeat

TRIES = 2  # how often a repeat may be in measurement while its job dies
STILLBORN = 2  # the lane is given up after so many jobs in a row without a record, where the last never ran,
FRUITLESS = 5  # or so many where it did: two repeats that kill every job must not take the rest along
JOB_LIMIT = 1000  # repeats in one job, so that its parameters stay below the API's limit of 512 KB


@dataclass(slots=True)
class Job:
    """One flow run of a lane and what it has still to deliver, in the order in which it measures."""

    flow_run_id: UUID
    missing: dict[str, Repeat]
    submitted_at: float
    delivered: int = 0


@dataclass(slots=True)
class Lane:
    """The repeats of one piece of hardware that somebody waits for.

    Attributes:
        waiting: asked for and in no job, by id.
        asked_at: when the newest of them was asked for, seconds on the caller's clock.
        tries: how often a repeat was being measured when its job died.
        fruitless: jobs in a row that died without a record.
        ticket: names the next job, however often it has to be asked for.
    """

    machine: Hardware
    waiting: dict[str, Repeat] = field(default_factory=dict)
    asked_at: float = 0.0
    job: Job | None = None
    tries: dict[str, int] = field(default_factory=dict)
    fruitless: int = 0
    ticket: str = field(default_factory=lambda: str(uuid4()))

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
        """The repeats of the next job: one that was in a dying job alone, else all that fit."""
        ordered = sorted(self.waiting.values(), key=lambda repeat: repeat.order)
        suspects = [repeat for repeat in ordered if self.tries.get(repeat.id)]
        return suspects[:1] or ordered[: min(self.machine.cells_per_job or JOB_LIMIT, JOB_LIMIT)]

    def start(self, flow_run_id: UUID, repeats: Iterable[Repeat], now: float) -> None:
        """These repeats are in a job now; until it is known to exist they stay on the list."""
        self.ticket = str(uuid4())
        self.job = Job(flow_run_id, {repeat.id: repeat for repeat in repeats}, now)
        for repeat_id in self.job.missing:
            self.waiting.pop(repeat_id, None)

    def delivered(self, repeat_id: str) -> None:
        """A record has come."""
        self.waiting.pop(repeat_id, None)
        if self.job and self.job.missing.pop(repeat_id, None):
            self.job.delivered += 1
            self.fruitless = 0

    def job_ended(self, ran: bool, reason: str) -> tuple[list[Repeat], list[Record]]:
        """The job is over: returns the repeats to ask for again, and records for those that are given up.

        `ran` is whether it began to measure: where it didn't, no repeat is to blame.
        """
        job, self.job = self.job, None
        if job is None or not job.missing:
            return [], []
        self.fruitless = 0 if job.delivered else self.fruitless + 1
        lost = list(job.missing.values())
        if self.fruitless >= (FRUITLESS if ran else STILLBORN):
            self.waiting |= job.missing
            text = f"{self.fruitless} lane jobs in a row ended without a record; the last: {reason}"
            return [], self.give_up(text)
        in_hand = lost[0]
        self.tries[in_hand.id] = self.tries.get(in_hand.id, 0) + ran
        if self.tries[in_hand.id] < TRIES:
            return lost, []
        text = f"its lane job died while measuring it, {TRIES} times, the second time alone; {reason}"
        return lost[1:], [in_hand.failed(Verdict.CRASHED, text)]

    def give_up(self, reason: str) -> list[Record]:
        """Records for everything that is still to come; only a resume asks for it again."""
        rest = [*(self.job.missing.values() if self.job else []), *self.waiting.values()]
        self.waiting.clear()
        self.job = None
        return [repeat.failed(Verdict.CAPACITY, reason) for repeat in rest]
