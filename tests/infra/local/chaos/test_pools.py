from pathlib import Path

import psutil
import pytest

from infra.local.errors import LocalStackError
from infra.local.stack import LocalStack
from tests.infra.local.pool_probe import POOLS, START_S, Api
from tests.infra.local.stack_probe import everything_of, is_worker, stored_states, until

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
    ),
    pytest.mark.usefixtures("fast"),
]

WORKER = ["prefect", "worker", "start"]


def worker_of(state: Path, pool: str) -> psutil.Process:
    def those() -> list[psutil.Process]:
        there = [one for one in everything_of(state) if is_worker(one) or one.cmdline()[2:5] == WORKER]
        return [one for one in there if pool in one.cmdline()]

    assert until(those, 10)
    return those()[0]


def test_a_dead_worker_is_replaced_and_the_other_goes_on(state: Path, stack_of_two: LocalStack):
    local, first = worker_of(state, "local"), worker_of(state, "ssh")
    api = Api(stack_of_two)
    run = api.start()
    assert until(lambda: api.taken(run), 30)
    first.kill()
    first.wait()
    said = []
    assert until(lambda: said.append(stack_of_two.check()) or said[-1], 30)
    assert said[-1] == (
        "The worker of pool ssh had stopped (killed by SIGKILL) while its runs go on, and was started again."
    )
    second = worker_of(state, "ssh")
    assert second.pid != first.pid and local.is_running()
    assert api.state(run) == "PENDING"
    assert stack_of_two.check() is None


def test_jobs_that_a_stack_left_on_a_box_are_ended_by_the_next_stack(state: Path):
    with LocalStack(state, pools=POOLS, start_s=START_S) as stack:
        api = Api(stack)
        run = api.start()
        assert until(lambda: api.taken(run), 30)
        stack._workers.pop().service.stop()  # as if we were killed before anything could be cancelled
    assert stored_states(state) == ["PENDING"]
    with LocalStack(state, pools=POOLS, start_s=START_S) as stack:
        assert until(lambda: Api(stack).state(run) == "CANCELLED", 40)


def test_a_stack_without_the_worker_is_not_joined(state: Path):
    with (
        LocalStack(state, start_s=START_S),
        pytest.raises(LocalStackError, match="has no worker for pool ssh: stop process"),
        LocalStack(state, pools=POOLS, start_s=START_S),
    ):
        pass


def test_a_worker_that_cannot_start_is_reported(state: Path):
    with (
        pytest.raises(LocalStackError, match=r"work pool odd could not be created: .*no-such-type"),
        LocalStack(state, pools={"odd": "no-such-type"}, start_s=START_S),
    ):
        pass
    assert not everything_of(state)
