from types import SimpleNamespace
from uuid import UUID

import httpx
import pytest
from prefect.states import Cancelled, Cancelling, Crashed, Pending, Running

from tasks.delivery import own_run
from tasks.delivery.own_run import OwnRun


class Api:
    """A Prefect API with one flow run; raises its state if that is an error."""

    def __init__(self, *states):
        self.states, self.asked = list(states), 0

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return None

    def read_flow_run(self, flow_run_id):
        self.asked += 1
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return SimpleNamespace(state=state)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(own_run, "LOOK_S", 0.0)

    def serve(*states):
        api = Api(*states)
        monkeypatch.setattr(own_run, "get_client", lambda sync_client: api)
        return api

    return serve


@pytest.mark.parametrize("state", [Cancelling(), Cancelled(), Crashed(name="PodLost")])
def test_a_run_that_is_cancelled_or_over_stops(at_once, state):
    at_once(Running(), state)
    own = OwnRun(UUID(int=1))
    assert not own.must_stop() and own.ended == ""
    assert own.must_stop() and state.name in own.ended


def test_a_run_that_goes_on_or_cannot_be_asked_does_not(at_once):
    api = at_once(Pending(), httpx.ConnectError("away"), Running())
    own = OwnRun(UUID(int=1))
    assert [own.must_stop() for _ in range(3)] == [False] * 3 and api.asked == 3


def test_the_state_of_the_own_run_is_asked_no_more_often_than_its_pace(at_once):
    api = at_once(Cancelling())
    own = OwnRun(UUID(int=1), every_s=3600.0)
    assert not any(own.must_stop() for _ in range(100)) and api.asked == 0
