from pathlib import Path

import psutil
import pytest

from infra.local.errors import LocalStackError
from infra.local.stack import LocalStack, running_api
from tests.infra.local.stack_ports import SLOW_S
from tests.infra.local.stack_probe import Holder, Runs, everything_of, is_worker, stored_states, until

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

SERVER = ["-m", "infra.local.server"]


def process_of(state: Path, what: str) -> psutil.Process:
    def those() -> list[psutil.Process]:
        is_it = is_worker if what == "worker" else lambda one: one.cmdline()[1:3] == SERVER
        return list(filter(is_it, everything_of(state)))

    assert until(those, SLOW_S)
    return those()[0]


def test_an_exception_ends_the_stack_and_its_running_flows_and_processes(state: Path):
    with pytest.raises(ZeroDivisionError), LocalStack(state) as stack:
        runs = Runs(state, stack.api_url)
        runs.wait(runs.start(), "RUNNING")
        assert until(lambda: "sleep" in {one.name() for one in everything_of(state)}, SLOW_S)
        raise ZeroDivisionError
    assert stored_states(state) == ["CANCELLED"]
    assert not everything_of(state)


def test_a_worker_that_dies_is_replaced_and_its_run_has_crashed(state: Path, stack: LocalStack):
    runs = Runs(state, stack.api_url)
    run = runs.start()
    runs.wait(run, "RUNNING")
    first = process_of(state, "worker")
    first.kill()
    first.wait()
    assert until(lambda: (sentence := stack.check()) and "killed by SIGKILL" in sentence, SLOW_S)
    assert runs.state(run) == "CRASHED"
    assert process_of(state, "worker").pid != first.pid
    assert "sleep" not in {one.name() for one in everything_of(state)}
    runs.wait(runs.start(seconds=0), "COMPLETED")


def test_a_server_that_dies_comes_back_where_it_was(state: Path, stack: LocalStack):
    runs = Runs(state, stack.api_url)
    process_of(state, "server").kill()
    assert until(
        lambda: (sentence := stack.check()) and "server had stopped (killed by SIGKILL)" in sentence, SLOW_S
    )
    assert running_api(state) == stack.api_url
    runs.wait(runs.start(seconds=0), "COMPLETED")


def test_a_stack_started_while_another_stops_takes_over(state: Path, holder: Holder):
    first = holder.api_url
    holder.process.terminate()
    with LocalStack(state) as stack:
        assert stack.joined is (stack.api_url == first)
        if not stack.joined:
            assert stack.check() is None


def test_abandoned_runs_are_not_resurrected(state: Path):
    with LocalStack(state) as stack:
        stack._workers.pop().service.stop()
        runs = Runs(state, stack.api_url)
        runs.start()
    assert stored_states(state) == ["SCHEDULED"]
    with LocalStack(state):
        pass
    assert stored_states(state) == ["CANCELLED"]


def test_a_worker_that_dies_again_and_again_is_given_up(state: Path, stack: LocalStack):
    stack._workers[0].service.command = ["sh", "-c", "echo no such luck; exit 3"]
    process_of(state, "worker").kill()
    with pytest.raises(LocalStackError, match=r"exit status 3(.|\n)*no such luck"):
        until(lambda: stack.check() and False, 30)
