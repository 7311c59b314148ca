"""A lane's waiting repeats and jobs' ends."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from tasks.dispatch.job_end import JobEnd
from tasks.planning.hardware import Hardware
from tasks.planning.images import image_of
from tasks.results.billing import affordable_s, usd
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat

TRIES = 2  # times that a repeat can be in measurement while its job dies
# Jobs in a row without a record after which the lane is given up:
STILLBORN = 2  # if the last never ran, or was cancelled,
FRUITLESS = 5  # per entry, if it ran: two repeats that kill every job must not take the rest along,
RECLAIMS = 5  # if the provider took the machine back: no repeat is to blame then.
BOXES_LOST = 10  # rented boxes that a lane loses in a run, also with records between
HOPELESS = (JobEnd.NO_MACHINE, JobEnd.UNFIT, JobEnd.UNSEEN)  # ends after which another request is useless
START_WITHIN_S = 900.0  # for a worker to take a job
SHORTEST_S = 60  # AWS Batch takes no shorter limit
JOB_LIMIT = 1000  # repeats in one job: its order has about 400 kB, and a request has at most 5 MiB


def within_budget(machine: Hardware, left_usd: float | None, entries: int = 1) -> dict[str, Any]:
    """Limit `timeout_s` to the time that the money buys.

    A job can outlive its `bench`. Entries in turns have the time of all.
    """
    variables, usd_per_hour = machine.job_variables, machine.price.usd_per_hour
    if "timeout_s" in variables:
        variables = variables | {"timeout_s": variables["timeout_s"] * entries}
    if "timeout_s" not in variables or left_usd is None or not usd_per_hour:
        return variables
    left_s = affordable_s(left_usd, usd_per_hour)
    return variables | {"timeout_s": int(max(SHORTEST_S, min(variables["timeout_s"], left_s)))}


def overdue(pool: str, taken: bool, waited_s: float, start_within_s: float | None = None) -> str:
    """Return why a flow run that has not begun is given up; else empty.

    One `taken` by a worker has as long as its machine needs.
    """
    within_s = start_within_s if taken and start_within_s is not None else START_WITHIN_S
    if waited_s <= within_s:
        return ""
    who = f"pool {pool} has not" if taken else f"no worker of pool {pool} has"
    return f"{who} started the lane within {within_s:.0f} s"


def job_usd(machine: Hardware, ran_s: float, stated_s: float | None = None) -> float:
    """Return a job's cost, with the time paid for after it.

    Time is the platform's (`stated_s`), else the flow's with an estimated start. Jobs on rented machines cost
    nothing: the rental is paid for.
    """
    if machine.rent:
        return 0.0
    job_s = machine.start_s + ran_s if stated_s is None else stated_s
    return usd(job_s + machine.idle_s, machine.price.usd_per_hour)


@dataclass(slots=True)
class LaneRun:
    """A flow run, and undelivered repeats in order."""

    flow_run_id: UUID
    missing: dict[str, Repeat]
    submitted_at: float
    delivered: int = 0


@dataclass(slots=True)
class Lane:
    """Repeats of one entry, or of several that take turns on a box.

    Attributes:
        entries: differ only in name, title and threads.
        waiting: requested and in no job, by id.
        asked_at: newest request, on the caller's clock.
        tries: jobs that died while they measured a repeat, by id.
        fruitless: jobs in a row that died without a record.
        never_begun: rentals in a row that crashed before they began.
        boxes_lost: rented boxes lost while the lane had work.
        ticket: key of the next job, the same for every attempt.
        begins_s: of sessions, in seconds since the epoch.
    """

    entries: tuple[Hardware, ...]
    waiting: dict[str, Repeat] = field(default_factory=dict)
    asked_at: float = 0.0
    job: LaneRun | None = None
    tries: dict[str, int] = field(default_factory=dict)
    fruitless: int = 0
    never_begun: int = 0
    boxes_lost: int = 0
    ticket: str = field(default_factory=lambda: str(uuid4()))
    begins_s: dict[int, float] = field(default_factory=dict)

    @property
    def machine(self) -> Hardware:
        """Return the first entry: pool, job variables and price are alike."""
        return self.entries[0]

    @property
    def name(self) -> str:
        return " and ".join(entry.name for entry in self.entries)

    @property
    def box(self) -> str:
        """Return the computer, whose lanes take turns."""
        return self.machine.box or self.machine.name

    @property
    def session(self) -> int:
        """Return the next job's session, 1 for a lone one."""
        return min((repeat.session or 1 for repeat in self.waiting.values()), default=1)

    @property
    def measuring(self) -> bool:
        """Return whether a job has something to deliver."""
        return self.job is not None and bool(self.job.missing)

    def is_done(self, flow_run_id: UUID) -> bool:
        """Return whether all is delivered, so that the job ends by itself."""
        return self.job is not None and self.job.flow_run_id == flow_run_id and not self.job.missing

    @property
    def busy(self) -> bool:
        """Return whether anything is left to measure."""
        return self.measuring or bool(self.waiting)

    def ask(self, repeats: Iterable[Repeat], now: float) -> bool:
        """Return True if any repeat is new."""
        running = self.job.missing if self.job else {}
        new = {r.id: r for r in repeats if r.id not in running and r.id not in self.waiting}
        if new:
            self.waiting |= new
            self.asked_at = now
        return bool(new)

    def next_job(self) -> list[Repeat]:
        """Return a suspect alone, or all of one session and image."""
        session = self.session
        ordered = sorted((r for r in self.waiting.values() if (r.session or 1) == session), key=_turn)
        suspects = [repeat for repeat in ordered if self.tries.get(repeat.id)]
        ordered = [repeat for repeat in ordered if image_of(repeat) == image_of(ordered[0])]
        return suspects[:1] or ordered[: min(self.machine.cells_per_job or JOB_LIMIT, JOB_LIMIT)]

    def start(self, flow_run_id: UUID, repeats: Iterable[Repeat], now: float) -> None:
        """Note that an existing job has these repeats."""
        self.ticket = str(uuid4())
        self.job = LaneRun(flow_run_id, {repeat.id: repeat for repeat in repeats}, now)
        for repeat_id in self.job.missing:
            self.waiting.pop(repeat_id, None)

    def delivered(self, repeat_id: str) -> None:
        self.waiting.pop(repeat_id, None)
        if self.job and self.job.missing.pop(repeat_id, None):
            self.job.delivered += 1
            self.fruitless = self.never_begun = 0

    def overdue(self, flow_run_id: UUID, taken: bool, now: float) -> str:
        """Return why a job that has not begun is given up; else empty."""
        if self.job is None or self.job.flow_run_id != flow_run_id:
            return ""
        waited_s = now - self.job.submitted_at
        return overdue(self.machine.pool, taken, waited_s, self.machine.start_within_s)

    def job_ended(
        self, ran: bool, reason: str, end: JobEnd = JobEnd.CRASHED
    ) -> tuple[list[Repeat], list[Record]]:
        """Return repeats to try again, and records for those given up.

        If it never measured (`ran` is false), or was cancelled, no repeat is to blame.
        """
        job, self.job = self.job, None
        if job is None or not job.missing:
            return [], []
        self.fruitless = 0 if job.delivered else self.fruitless + 1
        lost = list(job.missing.values())
        taken_away, blames = end is JobEnd.TAKEN_AWAY, ran and end is not JobEnd.CANCELLED
        self.boxes_lost += taken_away and self.machine.rent is not None
        most = RECLAIMS if taken_away else FRUITLESS * len(self.entries) if blames else STILLBORN
        if end in HOPELESS or self.fruitless >= most or self.boxes_lost >= BOXES_LOST:
            self.waiting |= job.missing
            verdict = Verdict.PREEMPTED if taken_away else Verdict.CAPACITY
            return [], self.give_up(self._in_a_row(reason), verdict)
        if taken_away:
            return lost, []
        in_hand = lost[0]
        self.tries[in_hand.id] = self.tries.get(in_hand.id, 0) + blames
        if self.tries[in_hand.id] < TRIES:
            return lost, []
        text = f"its lane job died while measuring it, {TRIES} times, the second time alone; {reason}"
        verdict = Verdict.OUT_OF_MEMORY if end is JobEnd.OUT_OF_MEMORY else Verdict.CRASHED
        return lost[1:], [in_hand.failed(verdict, text)]

    def _in_a_row(self, reason: str) -> str:
        if self.boxes_lost >= BOXES_LOST:
            return f"{self.boxes_lost} rented boxes were lost in this run; the last: {reason}"
        if self.fruitless < 2:
            return reason
        return f"{self.fruitless} lane jobs in a row ended without a record; the last: {reason}"

    def box_gone(self, reason: str, end: JobEnd) -> tuple[list[Repeat], list[Record]]:
        """Return the same as `job_ended`.

        If it was not taken away, its rental never began.
        """
        if self.job and self.job.missing:
            return self.job_ended(True, reason, JobEnd.TAKEN_AWAY)
        if end is JobEnd.TAKEN_AWAY:
            self.fruitless, self.never_begun = self.fruitless + 1, 0
            self.boxes_lost += self.machine.rent is not None
            if self.fruitless < RECLAIMS and self.boxes_lost < BOXES_LOST:
                return [], []
            text = f"{self.fruitless} boxes in a row went without a record; the last: {reason}"
            if self.boxes_lost >= BOXES_LOST:
                text = self._in_a_row(reason)
            return [], self.give_up(text, Verdict.PREEMPTED)
        self.never_begun += 1
        if self.never_begun < STILLBORN:
            return [], []
        return [], self.give_up(f"{self.never_begun} rentals in a row never began; the last: {reason}")

    def give_up(self, reason: str, verdict: Verdict = Verdict.CAPACITY) -> list[Record]:
        """Return records for missing repeats; only a resume requests them again."""
        rest = [*(self.job.missing.values() if self.job else []), *self.waiting.values()]
        self.waiting.clear()
        self.job = None
        return [repeat.failed(verdict, reason) for repeat in rest]


def lanes_of(hardware: Sequence[Hardware]) -> list[Lane]:
    """Return lanes; entries that can share a job share one."""
    lanes: dict[str, list[Hardware]] = {}
    for machine in hardware:
        lanes.setdefault(machine.job_key, []).append(machine)
    return [Lane(tuple(entries)) for entries in lanes.values()]


def _turn(repeat: Repeat) -> tuple[int, float]:
    """Return a repeat's place in its lane.

    Entries in turns have one order of cases, so that slow changes of the box leave their ratio. The first of
    each pair is random.
    """
    draw = random.Random(f"{repeat.seed} {repeat.order} {repeat.hardware}")
    return repeat.order, draw.random()
