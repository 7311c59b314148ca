"""Events: a case got slower, a lane is lost, a budget is spent.

Hardware is always a related resource, so that one rule finds its events. A thread sends them; no run waits
for them or fails by them.
"""

from collections.abc import Sequence

from prefect.events import emit_event
from prefect.settings import get_current_settings

from tasks.planning.plan import Plan

CASE_SLOWER, ALL_SLOWER = "gridbench.case.slower", "gridbench.hardware.slower"
LANE_LOST, BUDGET_SPENT = "gridbench.lane.lost", "gridbench.budget.spent"
LONGEST = 2_000  # characters of a text
LISTED = 50  # related resources: a server takes 100, and Prefect's own need room
Labels = dict[str, str]
Payload = dict[str, str | float]


def case_resource(hardware: str, case: str) -> Labels:
    """Return `gridbench.case.local-cpu.matmul/n=500/fp32`."""
    workload = case.partition("/")[0]
    return _resource("case", f"{hardware}.{case}", hardware=hardware, case=case, workload=workload)


def hardware_resource(hardware: str) -> Labels:
    """Return `gridbench.hardware.local-cpu`."""
    return _resource("hardware", hardware, hardware=hardware)


def slower(hardware: str, cases: Sequence[str], payload: Payload, channel: str) -> None:
    """Report a confirmed slowdown."""
    whole, related = hardware_resource(hardware), [case_resource(hardware, case) for case in cases]
    kind, resource = (CASE_SLOWER, related[0]) if len(cases) == 1 else (ALL_SLOWER, whole)
    _tell(kind, resource | {"gridbench.channel": channel}, [whole, *related], payload)


def lane_lost(plan: Plan, hardware: str, reason: str, repeats: int) -> None:
    """Report a lane given up, and its unmeasured repeats."""
    sentence = f"Run {plan.run} has lost its lane {hardware}: {reason.removeprefix(f'lane {hardware}: ')}"
    payload: Payload = {"sentence": sentence, "repeats": repeats}
    lost = hardware_resource(hardware)
    _tell(LANE_LOST, lost, [lost, _run_resource(plan)], payload)


def budget_spent(plan: Plan, budget_usd: float, spent_usd: float) -> None:
    sentence = (
        f"Run {plan.run} has stopped: {spent_usd:.2f} USD of its budget of {budget_usd:g} USD are spent"
    )
    payload: Payload = {"sentence": sentence, "budget_usd": budget_usd, "spent_usd": spent_usd}
    related = [hardware_resource(machine.name) for machine in plan.hardware]
    _tell(BUDGET_SPENT, _run_resource(plan), related, payload)


def _run_resource(plan: Plan) -> Labels:
    return _resource("run", plan.run, run=plan.run, suite=plan.suite)


def _resource(kind: str, name: str, **labels: str) -> Labels:
    own = {"prefect.resource.id": f"gridbench.{kind}.{name}", "prefect.resource.role": kind}
    return own | {"prefect.resource.name": name} | {f"gridbench.{key}": text for key, text in labels.items()}


def _tell(event: str, resource: Labels, related: Sequence[Labels], payload: Payload) -> None:
    if get_current_settings().api.url:  # without an address, Prefect would start a server
        short = {key: text[:LONGEST] if isinstance(text, str) else text for key, text in payload.items()}
        emit_event(event, resource, related=[*related[:LISTED]], payload=short)
