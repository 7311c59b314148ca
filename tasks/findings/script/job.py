"""Time and cost of a script's whole job."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.results.billing import usd
from tasks.results.finding import Finding, Results
from tasks.results.format import capitalised, format_count, format_duration, format_estimate, listed
from tasks.results.model import Machine
from tasks.results.repeats import FEWEST, Repeats
from tasks.results.sessions import WITHIN, Part, Sessions, shared_sd
from tasks.results.speedup import decide, scaled
from tasks.results.summaries import median_or_none
from tasks.results.table import Column, Quantity, Table, Value
from tasks.results.values import Estimate, RatioVerdict
from tasks.results.wording import script_text
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import errors_of, variance, widest
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.script import JobTime

NORMAL = 1.959964  # of a repeat's own 95 % interval
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Standing"),
    Column("Whole job", Quantity.DURATION),
    Column("Cost", Quantity.MONEY),
    Column("Price", Quantity.PRICE),
    Column("Steps", Quantity.COUNT),
    Column("Time to the first step", Quantity.TIME),
    Column("Time per step (wall clock)", Quantity.TIME),
    Column("Repeats", Quantity.COUNT),
)
LEAD = (
    "The time from the start to the end of the script's process, with evaluation and checkpoints. "
    "The bills also include machine boot, image pull and installation of packages. A minute of steps does not show a "
    "drift over hours or a neighbour that comes for minutes; repeats at other hours do."
)


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """The logarithm of a job's seconds.

    Attributes:
        error: variance: the repeats' over their number, plus the mean of their errors, which can be one error
            that more repeats do not reduce.
        freedom: by Satterthwaite; 0 for one repeat.
    """

    log_s: float
    error: float
    freedom: float
    repeats: int

    @classmethod
    def of(cls, jobs: Sequence[JobTime]) -> "JobPrediction":
        logs = [math.log(job.seconds) for job in jobs]
        centre, count = statistics.fmean(logs), len(jobs)
        if count < FEWEST:
            return cls(centre, math.inf, 0.0, count)
        within = statistics.fmean((math.log(job.high_s / job.low_s) / 2 / NORMAL) ** 2 for job in jobs)
        error, freedom = errors_of([(variance(logs) / count, count - 1.0), (within, math.inf)])[0]
        return cls(centre, error**2, freedom, count)

    def seconds(self) -> Estimate:
        return _estimate(self.log_s, self.error, self.freedom)

    def over(self, other: "JobPrediction", sessions: Sequence[Part] = ()) -> Estimate:
        """Return the ratio by Welch's t on logarithms, with sessions' effects."""
        own = ((self.error, self.freedom), (other.error, other.freedom))
        log, least = self.log_s - other.log_s, min(self.freedom, other.freedom)
        if least <= 0:
            return Estimate(math.exp(log))
        half = widest(errors_of(own, sessions), 0.975)
        return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half))


@dataclass(frozen=True, slots=True)
class JobOnMachine:
    """A whole job on one machine.

    Attributes:
        first_step_s: from the process's start, median.
        step_s: wall clock with evaluation and checkpoints, median.
        left_out: parts that some repeat has not seen: the lower bound holds.
        busy, restless: other programs ran, or the CPU's speed varied.
    """

    hardware: str
    case: Case
    length: JobTime
    prediction: JobPrediction
    usd_per_hour: float | None
    first_step_s: float | None
    step_s: float | None
    left_out: tuple[str, ...]
    busy: bool
    restless: bool
    sessions: Sessions = WITHIN

    @property
    def usd(self) -> Estimate | None:
        if self.usd_per_hour is None:
            return None
        return scaled(self.prediction.seconds(), usd(1.0, self.usd_per_hour))

    @property
    def text(self) -> str:
        """Return such as `41 USD (39–43), 52 h (50–54)`."""
        money = [format_estimate(self.usd, " USD")] if self.usd else []
        amounts = ", ".join([*money, format_duration(self.prediction.seconds())])
        return f"at least {amounts}" if self.left_out else amounts


@dataclass(frozen=True, slots=True)
class WholeJobs(Finding):
    """Every script's job on each machine, a tuple per job."""

    name = "job"
    title = "The whole job"
    section = "script"
    order = 2
    jobs: tuple[tuple[JobOnMachine, ...], ...]

    @classmethod
    def find(cls, results: Results) -> "WholeJobs":
        """Predict jobs of known length, and take those that ran to their end."""
        machines = {machine.name: machine for machine in results.machines}
        jobs: dict[tuple[object, ...], list[JobOnMachine]] = {}
        for cell in results.cells:
            for length, job in _on_machine(cell, machines, results.sessions).items():
                jobs.setdefault((cell.cell.case, *length), []).append(job)
        return cls(tuple(map(tuple, jobs.values())))

    def table(self) -> Table | None:
        rows: list[tuple[Value, ...]] = []
        for same in self.jobs:
            best = {"cheapest": _best(same, True)[0], "fastest": _best(same, False)[0]}
            for job in sorted(
                same, key=lambda j: (j.usd is None, j.usd.value if j.usd else j.prediction.log_s)
            ):
                standings = [
                    word if len(tied) == 1 else f"perhaps {word}"
                    for word, tied in best.items()
                    if job.hardware in tied
                ]
                money = (job.prediction.seconds(), job.usd, job.usd_per_hour)
                length = (job.length.steps or None, job.first_step_s, job.step_s, job.prediction.repeats)
                rows.append((job.hardware, job.case.id, " and ".join(standings), *money, *length))
        return Table(COLUMNS, tuple(rows), LEAD) if rows else None

    def headline(self) -> tuple[str, ...]:
        return tuple(_line(same, len(self.jobs) > 1) for same in self.jobs)

    def details(self) -> tuple[str, ...]:
        return tuple(_sentence(same, len(self.jobs) > 1) for same in self.jobs)


def _on_machine(
    cell: Repeats, machines: Mapping[str, Machine], sessions: Sessions
) -> dict[tuple[int | None, int | None], JobOnMachine]:
    """Return jobs by length: epochs if known, else steps."""
    lengths: dict[tuple[int | None, int | None], list[JobTime]] = {}
    for record in (*cell.usable, *filter(_has_finished, cell.records)):
        if record.script and (job := record.script.job):
            lengths.setdefault((job.epochs, None if job.epochs else job.steps), []).append(job)
    scripts = [record.script for record in cell.usable if record.script]
    machine = machines.get(cell.cell.hardware)
    return {
        length: JobOnMachine(
            hardware=cell.cell.hardware,
            case=cell.cell.case,
            length=jobs[0],
            prediction=JobPrediction.of(jobs),
            usd_per_hour=machine.usd_per_hour if machine else None,
            first_step_s=median_or_none(script.first_step_s for script in scripts),
            step_s=median_or_none(script.mean_s for script in scripts),
            left_out=tuple(dict.fromkeys(part for job in jobs for part in job.left_out)),
            busy=cell.busy,
            restless=cell.restless,
            sessions=sessions,
        )
        for length, jobs in lengths.items()
    }


def _has_finished(record: Record) -> bool:
    job = record.script.job if record.script else None
    return record.verdict is Verdict.UNSUPPORTED and job is not None and job.measured and job.steps == 0


def _best(jobs: Sequence[JobOnMachine], by_cost: bool) -> tuple[list[str], str]:
    weights = {job.hardware: (job.usd_per_hour or 0.0) if by_cost else 1.0 for job in jobs}
    ranked = [job for job in jobs if weights[job.hardware] > 0]
    if len(ranked) < 2:
        return [], ""
    best = min(ranked, key=lambda job: job.prediction.log_s + math.log(weights[job.hardware]))
    tied, why = [best.hardware], ""
    for job in ranked:
        added = job.sessions.of_cell(job.hardware, best.hardware)
        ratio = job.prediction.over(best.prediction, added)
        repeats = min(job.prediction.repeats, best.prediction.repeats)
        factor = weights[job.hardware] / weights[best.hardware]
        verdict = decide(scaled(ratio, factor), repeats, shared_sd(added))
        if job is not best and verdict.outcome is not RatioVerdict.FASTER:
            tied.append(job.hardware)
            why = why or verdict.why
    return tied, why


def _line(jobs: Sequence[JobOnMachine], several: bool) -> str:
    available = {job.hardware: job for job in jobs}
    what = script_text(jobs[0].case) if several else "this job"
    state = "; provisional" if _provisional(jobs) else ""
    if len(jobs) == 1:
        return f"{capitalised(what)} on {jobs[0].hardware} takes {_alone(jobs[0])}{state}."
    (cheap, _), (fast, _) = _best(jobs, True), _best(jobs, False)
    if cheap and set(cheap) == set(fast):
        amount = f", {available[cheap[0]].text}" if len(cheap) == 1 else ""
        return f"Cheapest and fastest for {what}: {_either(cheap)}{amount}{state}."
    time = f", {format_duration(available[fast[0]].prediction.seconds())}" if len(fast) == 1 else ""
    if not cheap:
        return f"Fastest for {what}: {_either(fast)}{time}{state}."
    usd = available[cheap[0]].usd
    cost = f", {format_estimate(usd, ' USD')}" if usd and len(cheap) == 1 else ""
    return f"Cheapest for {what}: {_either(cheap)}{cost}; fastest: {_either(fast)}{time}{state}."


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"undecided between {listed(names)}"


def _sentence(jobs: Sequence[JobOnMachine], several: bool) -> str:
    available, length = {job.hardware: job for job in jobs}, jobs[0].length
    epochs = f"{format_count(length.epochs, 'epoch')}, " if length.epochs else ""
    steps = f"{epochs}{length.steps:,} step{'s' * (length.steps != 1)}"
    alone = f"this job of {steps}" if length.steps else "this job, whose step is unknown,"
    what = f"the job of {script_text(jobs[0].case)} ({steps})" if several else alone
    if len(jobs) == 1:
        return f"On {jobs[0].hardware} {what} takes {_alone(jobs[0])}{_provisional(jobs)}."
    cheap, fast = _best(jobs, True), _best(jobs, False)
    if cheap[0] and set(cheap[0]) == set(fast[0]):
        return f"Cheapest and fastest for {what}: {_named(cheap, available)}{_provisional(jobs)}."
    parts = [f"Cheapest for {what}: {_named(cheap, available)}"] if cheap[0] else []
    parts.append(f"{'fastest' if parts else f'Fastest for {what}'}: {_named(fast, available)}")
    unpriced = [job.hardware for job in jobs if not job.usd_per_hour]
    parts += [f"without a price, so not ranked by cost: {', '.join(unpriced)}"] if unpriced else []
    return f"{'; '.join(parts)}{_provisional(jobs)}."


def _named(best: tuple[list[str], str], jobs: Mapping[str, JobOnMachine]) -> str:
    tied, why = best
    texts = [f"{name}, {jobs[name].text}" for name in tied]
    return texts[0] if len(texts) == 1 else f"undecided between {' and '.join(texts)} ({why})"


def _alone(job: JobOnMachine) -> str:
    least = "at least " if job.left_out else ""
    seconds = f"{least}{format_duration(job.prediction.seconds())}"
    return f"{seconds} and costs {least}{format_estimate(job.usd, ' USD')}" if job.usd else seconds


def _provisional(jobs: Sequence[JobOnMachine]) -> str:
    busy = " and ".join(job.hardware for job in jobs if job.busy)
    restless = " and ".join(job.hardware for job in jobs if job.restless and not job.busy)
    whys = [f"other programs used {busy}"] if busy else []
    left_out = dict.fromkeys(part for job in jobs for part in job.left_out)
    whys += [f"no repeat has seen {' or '.join(left_out)}"] if left_out else []
    whys += [f"the CPU's speed varied on {restless}"] if restless else []
    return f"; provisional: {', and '.join(whys)}" if whys else ""


def _estimate(log: float, error: float, freedom: float) -> Estimate:
    if freedom <= 0:
        return Estimate(math.exp(log))
    half = widest([(math.sqrt(error), freedom)], 0.975)
    return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half))
