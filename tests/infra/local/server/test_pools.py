from pathlib import Path

import pytest

from infra.local.stack import LocalStack
from infra.local.workers import PoolWorker
from tests.infra.local.pool_probe import POOLS, START_S, Api
from tests.infra.local.stack_probe import everything_of, stored_states, until

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
    ),
    pytest.mark.usefixtures("fast"),
]


@pytest.mark.chaos
def test_each_pool_has_a_worker_and_none_is_left(state: Path, monkeypatch: pytest.MonkeyPatch):
    ended: list[tuple[str, str]] = []

    def noting(verb: str) -> None:
        real = getattr(PoolWorker, verb)

        def noted(worker: PoolWorker, *args: object) -> None:
            ended.append((verb, worker.pool))
            real(worker, *args)

        monkeypatch.setattr(PoolWorker, verb, noted)

    noting("end_runs")
    noting("stop")
    with LocalStack(state, pools=POOLS, start_s=START_S) as stack:
        api = Api(stack)
        for pool, kind in POOLS.items():
            assert until(lambda pool=pool: api.online(pool) == [pool], 30)
            assert api.http.get(f"/work_pools/{pool}").json()["type"] == kind
        template = api.http.get("/work_pools/ssh").json()["base_job_template"]
        assert {"hosts", "image", "tunnel"} <= template["variables"]["properties"].keys()
        with LocalStack(state, pools=POOLS, start_s=START_S) as second:
            assert second.joined
        run = api.start()
        assert until(lambda: api.taken(run), 30)
    assert ended == [("end_runs", "local"), ("end_runs", "ssh"), ("stop", "local"), ("stop", "ssh")]
    assert stored_states(state) == ["CANCELLED"]
    assert not everything_of(state)
