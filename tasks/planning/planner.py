"""A run's plan from its request."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from tasks.errors import GridbenchError
from tasks.planning.channel import Version, watched
from tasks.planning.code import script_notes, with_code
from tasks.planning.estimates import controls_on, estimate_s, lane_s, lane_usd
from tasks.planning.hardware import Hardware, load_gpus, load_suite_checked
from tasks.planning.images import check_images
from tasks.planning.limits import limits_of, threads_on
from tasks.planning.machines import baseline_of, machines_of
from tasks.planning.memory import unfit
from tasks.planning.plan import Plan, PlannedCase, PlannedSkip
from tasks.planning.request import RunRequest
from tasks.results.shortlist import MOST_RENTED
from tasks.schema import MOST_REPEATS, MOST_USD
from workloads.harness.records.case import Cell
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.script import Script
from workloads.harness.repeat.limits import too_large
from workloads.harness.repeat.suite import Suite
from workloads.harness.repeat.suite_case import SuiteCase


class OverBudget(GridbenchError):
    """A plan's estimate is above its budget."""

    def __init__(self, sentence: str, plan: Plan) -> None:
        super().__init__(sentence)
        self.plan = plan


def make_plan(request: RunRequest) -> Plan:
    """Decide a run's cells, machines, order and cost.

    Raises:
        GridbenchError: something requested doesn't exist or is unavailable.
    """
    version_measured = request.night.version if request.night else None
    given = watched(load_suite_checked(request.suite), request.night)
    suite = with_code(given, version_measured)
    machines = machines_of(request, version_measured)
    suite = _for_devices(suite, machines)
    check_images(machines, suite.entries)
    repeats = suite.repeats if request.repeats is None else request.repeats
    if not 1 <= repeats <= MOST_REPEATS:
        raise GridbenchError(f"repeats={repeats} must be 1 or more, and at most {MOST_REPEATS}")
    sessions = _sessions(request, suite, repeats)
    if request.break_even:
        _check_break_even(repeats, sessions, machines)
    skips = _skips(machines, suite)
    if request.shortlist:
        machines.sort(key=lambda machine: len(skips[machine.name]) == len(suite.entries))
    counted = machines[:1] if request.shortlist else machines
    lanes_s = {m.name: _lane_s(m, suite, (repeats, sessions), skips[m.name], request) for m in counted}
    gap_s = request.session_gap_s if sessions > 1 and not all(m.rent for m in machines) else 0.0
    now = datetime.now(UTC)
    plan = Plan(
        run=f"{now:%Y%m%d-%H%M%S}-{suite.name}-{secrets.token_hex(2)}",
        suite=suite.name,
        title=suite.title,
        created_at=now.isoformat(timespec="seconds"),
        gridbench=version("gridbench"),
        seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
        repeats=repeats,
        quick=suite.quick,
        timeout_s=suite.timeout_s,
        profile=suite.profile,
        acceptance=suite.acceptance,
        break_even=request.break_even,
        shortlist=request.shortlist,
        sessions=sessions,
        session_gap_s=gap_s,
        session_effect=request.session_effect,
        night=request.night,
        baseline=_baseline(request, machines),
        hardware=tuple(machines),
        cases=_planned_cases(suite, given, version_measured),
        skips=tuple(skip for machine_skips in skips.values() for skip in machine_skips),
        notes=(*script_notes(suite), *_shortlist_notes(request, machines)),
        estimate_s=estimate_s(lanes_s, counted) + (sessions - 1) * gap_s,
        estimate_usd=sum(lane_usd(m, lanes_s[m.name], sessions) for m in counted),
    )
    return plan


def _for_devices(suite: Suite, machines: Sequence[Hardware]) -> Suite:
    try:
        return suite.on({machine.device for machine in machines})
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None


def _baseline(request: RunRequest, machines: Sequence[Hardware]) -> str:
    cluster = request.cluster
    return baseline_of(request.baseline or (cluster.baseline if cluster else None), machines)


def _lane_s(
    machine: Hardware,
    suite: Suite,
    counts: tuple[int, int],
    skips: Sequence[PlannedSkip],
    request: RunRequest,
) -> float:
    skipped = {skip.case.case for skip in skips}
    repeats, sessions = counts
    in_turns = bool(request.night and request.night.version and request.night.version.partner)
    return lane_s(machine, suite, repeats, skipped, controls_on(machine, request.night), sessions, in_turns)


def _sessions(request: RunRequest, suite: Suite, repeats: int) -> int:
    """Return the requested ones, else the suite's, each with a repeat.

    Raises:
        GridbenchError: less than 1 or more than repeats.
    """
    if request.sessions is None:
        return min(suite.sessions, repeats)
    if not 1 <= request.sessions <= repeats:
        raise GridbenchError(
            f"sessions={request.sessions} must be from 1 to repeats={repeats}, as each session needs a repeat of a cell"
        )
    return request.sessions


def _shortlist_notes(request: RunRequest, machines: Sequence[Hardware]) -> tuple[str, ...]:
    first = machines[0].name
    return (
        (
            f"{first} is measured first; then, within the budget, those of the others that can be the fastest or the "
            f"cheapest by their predictions, at most {MOST_RENTED} rented machines in all. The estimate "
            f"counts {first} alone.",
        )
        if request.shortlist
        else ()
    )


def _check_break_even(repeats: int, sessions: int, machines: Sequence[Hardware]) -> None:
    if sessions > 1:
        raise GridbenchError(
            f"break_even measures further sizes in one session, and sessions={sessions}: choose one of the two"
        )
    if len(machines) < 2:
        raise GridbenchError(f"break_even needs two machines; hardware names only {machines[0].name}")
    if repeats < 2:
        raise GridbenchError("break_even needs intervals, and repeats=1 gives none; take repeats=3 or more")


def check_budget(plan: Plan, budget_usd: float | None) -> None:
    """Refuse an estimate above the budget; None allows any.

    Raises:
        GridbenchError: not from 0 to `MOST_USD`.
        OverBudget: the estimate is above.
    """
    if budget_usd is None:
        return
    check_amount(budget_usd)
    if plan.estimate_usd > budget_usd:
        raise OverBudget(
            f"the estimate of {plan.estimate_usd:.3g} USD exceeds budget_usd={budget_usd:g} by "
            f"{plan.estimate_usd - budget_usd:.3g} USD: raise the budget, or choose fewer cells, repeats or machines",
            plan,
        )


def check_amount(budget_usd: float) -> None:
    """Refuse a budget that is negative, NaN, or above `MOST_USD`.

    Raises:
        GridbenchError: it is.
    """
    if not 0 <= budget_usd <= MOST_USD:
        raise GridbenchError(f"budget_usd={budget_usd:g} must be 0 or more, and at most {MOST_USD:g}")


def _planned(entry: SuiteCase, partner: Script | None = None) -> PlannedCase:
    return PlannedCase.of(entry.case, entry.threads, entry.soak_s, entry.script, partner)


def _planned_cases(suite: Suite, given: Suite, version: Version | None) -> tuple[PlannedCase, ...]:
    partner = version.partner if version else None
    others = (
        {e.case: e.script for e in with_code(given, partner).entries} if partner and partner.folder else {}
    )
    return tuple(_planned(entry, others.get(entry.case)) for entry in suite.entries)


def _skips(machines: Sequence[Hardware], suite: Suite) -> dict[str, list[PlannedSkip]]:
    cases = [(entry, _planned(entry)) for entry in suite.entries]
    reasons = {(m.name, i): _known_reason(m, suite, *cases[i]) for m in machines for i in range(len(cases))}
    open_cells = [(m, cases[i][1]) for m in machines for i in range(len(cases)) if not reasons[m.name, i]]
    predicted = unfit(open_cells)
    skips: dict[str, list[PlannedSkip]] = {machine.name: [] for machine in machines}
    for (name, i), reason in reasons.items():
        planned = cases[i][1]
        if why := reason or predicted.get(Cell(name, planned.case)):
            skips[name].append(PlannedSkip(hardware=name, case=planned, reason=why))
    return skips


def _known_reason(machine: Hardware, suite: Suite, entry: SuiteCase, planned: PlannedCase) -> str | None:
    if not entry.is_for(machine.device):
        return f"the suite measures it on {entry.device} only"
    return skip_reason(machine, planned, suite.timeout_s)


def skip_reason(machine: Hardware, planned: PlannedCase, timeout_s: float) -> str | None:
    """Return None if the machine might measure the case."""
    precision = planned.case.precision
    if machine.gpu and not load_gpus()[machine.gpu].computes_in(precision):
        return f"{machine.name}'s card does not compute in {precision}"
    limits = limits_of(machine, threads_on(machine, planned.threads))
    return too_large(planned.case, limits, timeout_s, planned.script)
