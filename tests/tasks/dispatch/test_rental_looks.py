from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.states import Cancelled, Completed, Running

from tasks.dispatch.flow_runs import LANE_TAG, measuring, myself_and_bench


class Client:
    def __init__(self, *runs):
        self.runs, self.requests = list(runs), 0

    async def read_flow_runs(self, flow_run_filter, limit, offset, flow_filter=None):
        self.requests += 1
        flows = flow_filter.name.any_ if flow_filter else None
        ids = flow_run_filter.id.any_ if flow_run_filter.id else None
        names = flow_run_filter.name.any_ if flow_run_filter.name else None
        states = flow_run_filter.state.type.any_ if flow_run_filter.state else None
        found = [
            run
            for run in self.runs
            if (ids is None or run.id in ids)
            and (names is None or run.name in names)
            and (flows is None or run.flow in flows)
            and (states is None or run.state.type in states)
        ]
        return found[offset : offset + limit]


def flow_run(name, state, flow="bench", tags=()):
    known = {"flow": flow, "tags": tags, "expected_start_time": None, "created": None}
    return SimpleNamespace(id=uuid4(), name=name, state=state, **known)


@pytest.fixture
def me():
    return flow_run("a-box · rental", Running())


async def test_a_look_is_one_request_while_the_bench_goes_on(me):
    bench = flow_run("a-run", Running())
    client = Client(me, bench, flow_run("another-run", Running()))
    assert await myself_and_bench(client, me.id, "a-run", None) == (me, bench.id)
    client.requests = 0
    for _ in range(10):
        assert await myself_and_bench(client, me.id, "a-run", bench.id) == (me, bench.id)
    assert client.requests == 10


@pytest.mark.parametrize("state", [Completed(), Cancelled()])
async def test_an_ended_bench_is_ignored_and_a_resumed_one_is_found(me, state):
    bench = flow_run("a-run", state)
    client = Client(me, bench)
    assert await myself_and_bench(client, me.id, "a-run", bench.id) == (me, None)
    client.runs.append(resumed := flow_run("a-run", Running()))
    assert await myself_and_bench(client, me.id, "a-run", bench.id) == (me, resumed.id)


@pytest.mark.parametrize("lane", [{"flow": "lane"}, {"tags": [LANE_TAG]}])
async def test_a_lane_job_with_the_name_of_its_run_is_not_the_bench(me, lane):
    """Else a box could keep itself rented by its flow run's name."""
    client = Client(me, flow_run("a-run", Running(), **lane))
    assert await myself_and_bench(client, me.id, "a-run", None) == (me, None)
    assert await measuring(client, "a-run") == []


async def test_a_deleted_flow_run_is_read_as_none(me):
    bench = flow_run("a-run", Running())
    assert await myself_and_bench(Client(bench), me.id, "a-run", bench.id) == (None, bench.id)
