"""Notes on lane jobs in `jobs.json`, for bills."""

import json
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from pydantic import Field, NonNegativeFloat, NonNegativeInt, TypeAdapter, ValidationError

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.dispatch.flow_runs import has_begun, is_final, lane_jobs
from tasks.dispatch.job_end import had_machine, stages_s, stated_s, stated_times
from tasks.dispatch.rented_boxes import hardware_of, rental_runs, status_of
from tasks.results.billing import usd
from tasks.results.finding import LaneJob
from tasks.schema import Strict
from tasks.store.store import Store
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

FILE = "jobs.json"
REST = "start of the container and Prefect"
UNBOOTED, BOOT = "boxes that did not boot", "boot"


class JobNote(Strict):
    """A lane's or rented box's flow run; times in ISO 8601.

    Attributes:
        submitted_at: taken by a worker, which starts a machine.
        ended_at: None if still running.
        started_at: of its flow, if it began.
        billed_s: from `submitted_at`, or the platform's begin, to the end or the note; 0 without a machine.
        stages_s: before `started_at`.
        turns_with: other entries of its box that took turns.
        repeats: 0 for a rented box.
        usd: paid, if not by the file's price.
    """

    flow_run_id: UUID
    hardware: str
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    billed_s: NonNegativeFloat
    repeats: NonNegativeInt
    turns_with: tuple[str, ...] = ()
    stages_s: dict[str, NonNegativeFloat] = Field(default_factory=dict)
    usd: NonNegativeFloat | None = None

    @property
    def wait_s(self) -> float:
        """Return billed seconds before it ran."""
        waited_s = (self.started_at - self.submitted_at).total_seconds() if self.started_at else self.billed_s
        return min(max(waited_s, 0.0), self.billed_s)

    @property
    def job(self) -> LaneJob:
        rest_s = self.wait_s - sum(self.stages_s.values())
        stages = (*self.stages_s.items(), (REST, rest_s)) if self.stages_s and rest_s >= 0 else ()
        return LaneJob(
            self.hardware, self.wait_s, self.billed_s - self.wait_s, stages, turns_with=self.turns_with
        )

    @property
    def rented(self) -> LaneJob:
        """Include all payments."""
        before_s = sum(self.stages_s.values())
        return LaneJob(
            self.hardware, before_s, self.billed_s - before_s, tuple(self.stages_s.items()), self.usd
        )

    @property
    def within_rental(self) -> LaneJob:
        """Take the job's start out of the box's idle time."""
        return LaneJob(self.hardware, self.wait_s, -self.wait_s, ((REST, self.wait_s),))


NOTES = TypeAdapter(list[JobNote])


async def note_jobs(client: PrefectClient, store: Store) -> None:
    """Update `jobs.json`, and keep an earlier `bench`'s notes.

    Without a machine it states that nothing was paid. Failures cost only the notes.
    """
    try:
        notes = {note.flow_run_id: note for note in _read(store) or ()}
        for job in await lane_jobs(client, store.plan.run):
            noted = notes.get(job.id)
            if noted is None or noted.ended_at is None or stated_times(job)[1] not in (None, noted.ended_at):
                notes |= {note.flow_run_id: note for note in await _note(client, job)}
        for run in await rental_runs(client, store.plan.run):
            notes |= {note.flow_run_id: note for note in note_of_rental(run)}
        if notes or not (store.folder / FILE).exists():
            content = NOTES.dump_python([*notes.values()], mode="json")
            write_text(store.folder / FILE, json.dumps(content, indent=1) + "\n")
    except (*LOST_TOUCH, WorkloadsError):
        return


def jobs_of(store: Store) -> list[LaneJob]:
    notes = _read(store) or []
    rented = {note.hardware for note in notes if note.usd is not None}
    own = [note.job for note in notes if note.hardware not in rented]
    boxes = [note.rented for note in notes if note.usd is not None]
    on_boxes = [note.within_rental for note in notes if note.usd is None and note.hardware in rented]
    return [*own, *on_boxes, *boxes]


def spent_usd(store: Store) -> float:
    """Return a run's cost, or the plan's estimate without notes.

    Raises:
        GridbenchError: its plan can't be read.
    """
    plan = store.plan
    if _read(store) is None:
        return plan.estimate_usd
    prices = {machine.name: machine.price.usd_per_hour for machine in plan.hardware}
    return sum(
        job.usd if job.usd is not None else usd(job.wait_s + job.run_s, prices.get(job.hardware)) or 0.0
        for job in jobs_of(store)
    )


def _read(store: Store) -> list[JobNote] | None:
    """Return None without readable ones: a bill then states that."""
    try:
        return NOTES.validate_json((store.folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None


async def _note(client: PrefectClient, job: FlowRun) -> list[JobNote]:
    hardware, repeats = job.parameters.get("hardware"), job.parameters.get("count")
    taken = [s.timestamp for s in await client.read_flow_run_states(job.id) if s.is_pending()]
    started = job.start_time if has_begun(job) else None
    began, over = stated_times(job)
    begun = began or min(taken, default=started)
    if begun is None or not repeats:
        return []
    ended, now = over or (job.end_time if is_final(job.state) else None), datetime.now(UTC)
    paid_s = stated_s(job, now)
    if paid_s is None:
        paid_s = _between_s(begun, ended or now)
    billed_s = max(paid_s, 0.0) if had_machine(job) else 0.0
    waited_s = _between_s(begun, started) if started else billed_s
    return [
        JobNote(
            flow_run_id=job.id,
            hardware=str(hardware),
            submitted_at=begun,
            started_at=started,
            ended_at=ended,
            billed_s=billed_s,
            repeats=int(repeats),
            turns_with=tuple(job.parameters.get("turns_with") or ()),
            stages_s=_within(stages_s(job), waited_s) if began else stages_s(job),
        )
    ]


def _between_s(begin: datetime, end: datetime) -> float:
    return (end - begin).total_seconds()


def _within(stages: dict[str, float], waited_s: float) -> dict[str, float]:
    """Return the last stages within a wait: earlier queueing is not the machine's time."""
    while stages and sum(stages.values()) > waited_s:
        stages = dict([*stages.items()][1:])
    return stages


def note_of_rental(run: FlowRun) -> list[JobNote]:
    """Return none if it had no box."""
    rental, now = status_of(run), datetime.now(UTC)
    since = rental.since or (run.start_time if has_begun(run) else None)
    if since is None or rental.cost_usd(now) == 0:
        return []
    boot_s = ((rental.answered or rental.returned or now) - since).total_seconds() if rental.since else 0.0
    billed_s = rental.billed_s(now)
    return [
        JobNote(
            flow_run_id=run.id,
            hardware=hardware_of(run),
            submitted_at=since,
            started_at=rental.answered,
            ended_at=rental.returned,
            billed_s=rental.earlier_s + billed_s,
            repeats=0,
            stages_s={UNBOOTED: rental.earlier_s, BOOT: min(max(boot_s, 0.0), billed_s)},
            usd=rental.cost_usd(now),
        )
    ]
