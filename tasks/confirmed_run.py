"""The plan that measures an answer again, and its sessions."""

import secrets
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tasks.earlier_sessions import sessions_of
from tasks.errors import GridbenchError
from tasks.findings.claims import AnswerClaim, answers_of, carrying_cases, claims_of
from tasks.findings.compare import judged_cells
from tasks.imported import SUITE as IMPORTED
from tasks.planning.estimates import estimate_s, lane_usd
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan, PlannedCase
from tasks.planning.reprice import price_today
from tasks.results.finding import NO_ANSWER, EarlierAnswer, EarlierSession
from tasks.results.metrics import measured_of, one_number
from tasks.results.repeats import FEWEST, latest
from tasks.schema import MOST_REPEATS
from tasks.store.bucket import Bucket
from tasks.store.store import Store, runs
from tasks.travel.tree import take
from workloads.harness.records.case import Case


def plan_of_confirmation(store: Store, repeats: int | None = None) -> tuple[Plan, tuple[AnswerClaim, ...]]:
    """Return the plan that confirms a run's answer, and its claims.

    Its cells are of the best machine and its rivals, in cases that make nearly all of their difference.
    Prices are today's; the claims keep the run's.

    Raises:
        GridbenchError: nothing compared, not measurable from here, or changed code.
    """
    plan, session = store.plan, session_of(store)
    if plan.suite == IMPORTED:
        raise GridbenchError(f"run {plan.run} was imported: its machines cannot be measured from here")
    answers = answers_of([c for c in session.cells if c.cell.case in session.suite], session.sessions)
    claims = claims_of(answers, session.machines)
    if not claims:
        raise GridbenchError(
            f"run {plan.run} has nothing to confirm: no case has valid results on two of its machines"
        )
    repeats = max(plan.repeats, FEWEST) if repeats is None else repeats
    if not FEWEST <= repeats <= MOST_REPEATS:
        limits = f"must be {FEWEST} or more, since one repeat has no interval, and at most {MOST_REPEATS}"
        raise GridbenchError(f"repeats={repeats} {limits}")
    names = {name for claim in claims for name in (claim.best, claim.rival)}
    chosen = {*carrying_cases(answers[0], claims), *(measured_of(c.case) for c in claims if c.case)}
    hardware, notes = _at_todays_prices([machine for machine in plan.hardware if machine.name in names])
    cases = tuple(planned for planned in plan.cases if planned.case in chosen)
    _check_code(plan, cases)
    lanes_s = {machine.name: _lane_s(machine, chosen, session, repeats) for machine in hardware}
    now = datetime.now(UTC)
    changes = {
        "run": f"{now:%Y%m%d-%H%M%S}-confirm-{secrets.token_hex(2)}",
        "title": f"Confirmation of {plan.run}",
        "created_at": now.isoformat(timespec="seconds"),
        "gridbench": version("gridbench"),
        "seed": secrets.randbelow(2**31),
        "repeats": repeats,
        "sessions": 1,
        "acceptance": False,
        "break_even": False,
        "night": None,
        "confirms": plan.run,
        "baseline": plan.baseline if plan.baseline in names else claims[0].rival,
        "hardware": hardware,
        "cases": cases,
        "skips": (),
        "notes": (*plan.notes, *notes),
        "estimate_s": estimate_s(lanes_s, hardware),
        "estimate_usd": sum(lane_usd(machine, lanes_s[machine.name]) for machine in hardware),
    }
    return plan.model_copy(update=changes), claims


def session_of(store: Store) -> EarlierSession:
    """Return a run with its judged cells.

    Raises:
        GridbenchError: no readable record.
    """
    plan, records = store.plan, latest(store.records()[0])
    if not records:
        raise GridbenchError(f"run {plan.run} has no record that can be read; `gridbench resume {plan.run}`")
    judged, _ = judged_cells(records, plan.machines)
    cells = one_number(judged)
    views = {measured_of(cell.cell.case): cell.cell.case for cell in cells}
    cases = {views.get(planned.case, planned.case) for planned in plan.cases}
    return EarlierSession(plan.run, cells, plan.machines, cases, sessions_of(store, records))


def confirmed_answer(store: Store) -> EarlierAnswer:
    """Return sessions of the earlier run, and of its confirmations."""
    plan, results = store.plan, store.folder.parent
    if not plan.confirms:
        return NO_ANSWER
    try:
        if isinstance(store.bucket, Bucket) and not (results / plan.confirms / "plan.json").is_file():
            store.bucket.fetch(plan.confirms, results)
        first = session_of(Store(results / plan.confirms, store.bucket))
    except GridbenchError as error:
        problem = f"The answer of {plan.confirms} cannot be compared with this run: {error}."
        return EarlierAnswer(plan.confirms, (), problem)
    return EarlierAnswer(plan.confirms, (first, *_between(results, plan)))


def _between(results: Path, plan: Plan) -> list[EarlierSession]:
    began, sessions = datetime.fromisoformat(plan.created_at), []
    for name in sorted(runs(results)):
        try:
            other = Store(results / name).plan
            is_before = other.run != plan.run and datetime.fromisoformat(other.created_at) < began
            if other.confirms == plan.confirms and is_before:
                sessions.append(session_of(Store(results / name)))
        except GridbenchError:
            continue
    return sessions


def _at_todays_prices(machines: Sequence[Hardware]) -> tuple[tuple[Hardware, ...], list[str]]:
    priced, notes = list[Hardware](), list[str]()
    for machine in machines:
        price, sentence = price_today(machine)
        if price is machine.price or price.usd_per_hour != machine.price.usd_per_hour:
            notes.append(sentence)
        priced.append(machine.model_copy(update={"price": price}))
    return tuple(priced), notes


def _lane_s(machine: Hardware, cases: set[Case], session: EarlierSession, repeats: int) -> float:
    mine = (cell for cell in session.cells if cell.cell.hardware == machine.name)
    own = [cell for cell in mine if measured_of(cell.cell.case) in cases]
    walls_s = [statistics.fmean(record.wall_s for record in cell.usable or cell.records) for cell in own]
    return machine.start_s + repeats * sum(walls_s)


def _check_code(plan: Plan, cases: Sequence[PlannedCase]) -> None:
    """Refuse changed scripts: another script is another answer."""
    scripts = {case.script.code: case.script for case in cases if case.script and case.script.code}
    for code, script in scripts.items():
        if take(Path(script.folder)).id != code:
            raise GridbenchError(
                f"the code in {script.folder} differs from that of run {plan.run}: restore it to confirm the answer"
            )
