"""Skip a late scheduled night if a newer one is due."""

from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.runtime import deployment, flow_run

WAITING = (StateType.SCHEDULED, StateType.PENDING)


async def superseded(now: datetime | None = None) -> str:
    """Return why a later run of the schedule is due; else empty.

    After a downtime all missed nights are due at once and would measure the same.
    """
    if not deployment.id:
        return ""
    mine, due = flow_run.get_scheduled_start_time(), now or datetime.now(UTC)
    async with get_client() as client:
        me = await client.read_flow_run(UUID(flow_run.get_id()))
        if not me.auto_scheduled:
            return ""  # a person started it
        later = FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=[UUID(deployment.id)]),
            expected_start_time=FlowRunFilterExpectedStartTime.model_validate(
                {"after_": mine, "before_": due}
            ),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[*WAITING])),
        )
        waiting = await client.read_flow_runs(flow_run_filter=later)
        newer = [run for run in waiting if run.id != me.id and run.parameters == me.parameters]
    newest = max((run.expected_start_time for run in newer if run.expected_start_time), default=None)
    if newest is None or newest <= mine:
        return ""
    return (
        f"the night of {mine:%Y-%m-%d %H:%M} UTC is late: that of {newest:%Y-%m-%d %H:%M} UTC takes its place"
    )
