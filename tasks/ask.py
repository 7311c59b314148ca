"""Ask the person at the UI for more money."""

import math
from uuid import UUID, uuid4

import anyio
from prefect.client.orchestration import PrefectClient, get_client
from prefect.flow_runs import apause_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from pydantic import Field

from tasks.planning.planner import OverBudget
from tasks.planning.request import RunRequest

ANSWER_WITHIN_S = 3600
SPARE_S = 600  # Prefect fails a run after its pause, without our sentence
LOOK_S = 5


class MoreMoney(RunInput):
    """The answers that a paused run waits for, by a form."""

    go_on: bool = Field(default=False, title="Go on")
    budget_usd: float = Field(default=0.0, ge=0, title="Budget in USD")


async def with_more_money(request: RunRequest, over: OverBudget) -> RunRequest | None:
    """Pause for an answer; return the request with the allowed budget, None if declined.

    Raises:
        OverBudget: not started in the UI, or no answer.
    """
    async with get_client() as client:
        if not await _started_in_the_ui(client, UUID(flow_run.get_id())):
            raise over
    proposed = Field(default=float(math.ceil(over.plan.estimate_usd)), ge=0, title="Budget in USD")
    form = MoreMoney.with_initial_data(description=_question(over), budget_usd=proposed)
    with anyio.move_on_after(ANSWER_WITHIN_S):
        answer = await apause_flow_run(form, ANSWER_WITHIN_S + SPARE_S, LOOK_S, key=str(uuid4()))
        allowed = {"budget_usd": answer.budget_usd, "plan": over.plan}
        return request.model_copy(update=allowed) if answer.go_on else None
    raise OverBudget(f"{over}; the run was not resumed within an hour", over.plan)


def _question(over: OverBudget) -> str:
    return (
        f"**{over.plan.estimate_usd:.2f} USD, go on?** That is the estimate, and above the budget of this run. "
        "Nothing is started or paid for yet. Switch *Go on* on and set a budget, at which the run stops; "
        "otherwise it ends here."
    )


async def _started_in_the_ui(client: PrefectClient, flow_run_id: UUID) -> bool:
    """Return whether a person started a flow run in the UI.

    Only the UI and schedules give the first state a message, possibly empty; commands, automations and other
    flows do not.
    """
    run = await client.read_flow_run(flow_run_id)
    states = await client.read_flow_run_states(flow_run_id)
    first = min(states, key=lambda state: state.timestamp)
    by_nobody = run.auto_scheduled or run.created_by or run.parent_task_run_id
    return not by_nobody and first.message is not None
