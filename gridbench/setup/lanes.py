"""A pool's flow runs at a run's end that only its worker here can end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gridbench.setup.prefect_api import PrefectApi
from tasks.dispatch.flow_runs import LANE_TAG, run_tag

if TYPE_CHECKING:  # Prefect is slow to import
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State

OF_RUN = run_tag("")  # begin of the tag with a run's name
REASON = "its bench run is over"


class Unended(NamedTuple):
    """Flow runs that need a worker until they end.

    Attributes:
        cancelling: their cancellation has begun.
        finishing: lanes whose `bench` has completed: they end by themselves in seconds.
        orphans: lanes whose `bench` ended otherwise, or is gone.
    """

    cancelling: list["FlowRun"]
    finishing: list["FlowRun"]
    orphans: list["FlowRun"]


def unended(api: PrefectApi, pool: str) -> Unended:
    with api.client() as client:
        under_way = _under_way(client, pool)
        cancelling = [run for run in under_way if run.state and run.state.is_cancelling()]
        lanes = [run for run in under_way if run not in cancelling and LANE_TAG in run.tags]
        ends = {name: _completed(client, name) for name in {_run_of(lane) for lane in lanes}}
    finishing = [lane for lane in lanes if ends[_run_of(lane)] is True]
    return Unended(cancelling, finishing, [lane for lane in lanes if ends[_run_of(lane)] is False])


def cancel(api: PrefectApi, runs: Sequence["FlowRun"]) -> None:
    """Let the worker end these flow runs; those not begun are cancelled at once."""
    from prefect.states import Cancelled, Cancelling

    with api.client() as client:
        for run in runs:
            begun = run.state and (run.state.is_running() or run.state.is_pending())
            state: State[Any] = (Cancelling if begun else Cancelled)(message=REASON)
            client.set_flow_run_state(run.id, state, force=True)


def _run_of(lane: "FlowRun") -> str:
    return next((tag.removeprefix(OF_RUN) for tag in lane.tags if tag.startswith(OF_RUN)), "")


def _under_way(client: "SyncPrefectClient", pool: str) -> list["FlowRun"]:
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType

    types = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=types))
    name = filters.WorkPoolFilter(name=filters.WorkPoolFilterName(any_=[pool]))
    return client.read_flow_runs(flow_run_filter=filters.FlowRunFilter(state=state), work_pool_filter=name)


def _completed(client: "SyncPrefectClient", run: str) -> bool | None:
    from prefect.client.schemas import filters

    name = filters.FlowRunFilter(name=filters.FlowRunFilterName(any_=[run]))
    flow = filters.FlowFilter(name=filters.FlowFilterName(any_=["bench"]))
    runs = client.read_flow_runs(flow_filter=flow, flow_run_filter=name)
    states = [each.state for each in runs if each.state]
    if any(not state.is_final() for state in states):
        return None
    return any(state.is_completed() for state in states)
