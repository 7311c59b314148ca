"""The stack with a real server and a real worker."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.local.errors import LocalStackError
from infra.local.ports import port_taken
from infra.local.stack import LocalStack, running_api
from tests.infra.local.stack_probe import Holder, Runs, everything_of, stored_states, until

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


def port_of(api_url: str) -> int:
    return int(api_url.rsplit(":", 1)[1].removesuffix("/api"))


@pytest.fixture
def stack(state: Path) -> Iterator[LocalStack]:
    with LocalStack(state) as up:
        yield up


SLOW_S = 60  # of a machine that others use too
COMMANDS = {"server": ["-m", "infra.local.server"], "worker": ["-m", "prefect", "worker", "start"]}


def process_of(state: Path, what: str) -> psutil.Process:
    def those() -> list[psutil.Process]:
        words = COMMANDS[what]
        return [one for one in everything_of(state) if one.cmdline()[1 : 1 + len(words)] == words]

    assert until(those, SLOW_S)
    return those()[0]


def test_it_runs_a_flow_and_leaves_nothing(state: Path):
    with LocalStack(state) as stack:
        assert stack.ui_url == stack.api_url.removesuffix("/api")
        assert running_api(state) == stack.api_url
        assert stack.check() is None
        runs = Runs(stack.api_url)
        runs.wait(runs.start(seconds=0), "COMPLETED")
    assert running_api(state) is None
    assert not everything_of(state)
    assert port_taken("127.0.0.1", port_of(stack.api_url)) is None
    stack.stop()


@pytest.mark.chaos
def test_an_exception_ends_it_and_cancels_what_runs_with_all_that_it_started(state: Path):
    with pytest.raises(ZeroDivisionError), LocalStack(state) as stack:
        runs = Runs(stack.api_url)
        runs.wait(runs.start(), "RUNNING")
        assert until(lambda: "sleep" in {one.name() for one in everything_of(state)}, SLOW_S)
        raise ZeroDivisionError
    assert stored_states(state) == ["CANCELLED"]
    assert not everything_of(state)


@pytest.mark.parametrize(
    ("number", "status", "outcome"),
    [
        (signal.SIGINT, 1, "CANCELLED"),
        pytest.param(signal.SIGTERM, 143, "CANCELLED", marks=pytest.mark.chaos),
        (signal.SIGKILL, -9, "CRASHED"),
    ],
)
def test_a_signal_to_its_owner_ends_everything(
    state: Path, holder: Holder, number: int, status: int, outcome: str
):
    runs = Runs(holder.api_url)
    runs.wait(runs.start(), "RUNNING")
    assert until(lambda: "sleep" in {one.name() for one in everything_of(state)}, SLOW_S)
    holder.process.send_signal(number)
    assert until(lambda: not everything_of(state), SLOW_S), everything_of(state)
    assert holder.process.wait(SLOW_S) in (status, -number)
    assert port_taken("127.0.0.1", port_of(holder.api_url)) is None
    assert stored_states(state) == [outcome]
    assert running_api(state) is None


@pytest.mark.chaos
def test_a_worker_that_dies_is_replaced_and_its_run_has_crashed(state: Path, stack: LocalStack):
    runs = Runs(stack.api_url)
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


@pytest.mark.chaos
def test_a_server_that_dies_comes_back_where_it_was(state: Path, stack: LocalStack):
    runs = Runs(stack.api_url)
    process_of(state, "server").kill()
    assert until(
        lambda: (sentence := stack.check()) and "server had stopped (killed by SIGKILL)" in sentence, SLOW_S
    )
    assert running_api(state) == stack.api_url
    runs.wait(runs.start(seconds=0), "COMPLETED")


def test_a_second_one_joins_and_leaves_the_first_alone(state: Path, stack: LocalStack):
    with LocalStack(state) as second:
        assert second.joined and not stack.joined
        assert second.api_url == stack.api_url
        assert second.environment == stack.environment
        assert second.check() is None
    assert running_api(state) == stack.api_url
    stack.stop()
    with pytest.raises(LocalStackError, match="has stopped"):
        second.check()


@pytest.mark.chaos
def test_one_that_comes_while_the_first_stops_takes_over(state: Path, holder: Holder):
    first = holder.api_url
    holder.process.terminate()
    with LocalStack(state) as stack:
        assert stack.joined is (stack.api_url == first)
        if not stack.joined:
            assert stack.check() is None


@pytest.mark.chaos
def test_runs_that_nobody_waits_for_any_more_are_not_resurrected(state: Path):
    with LocalStack(state) as stack:
        stack._workers.pop().service.stop()
        runs = Runs(stack.api_url)
        runs.start()
    assert stored_states(state) == ["SCHEDULED"]
    with LocalStack(state):
        pass
    assert stored_states(state) == ["CANCELLED"]


def test_a_port_in_use_is_said(state: Path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(LocalStackError, match=f"Port {port} "), LocalStack(state, port=port):
            pass
    with LocalStack(state, port=port) as stack:
        assert stack.api_url == f"http://127.0.0.1:{port}/api"
    assert not everything_of(state)


def test_a_damaged_database_is_said(state: Path):
    (state / "prefect.db").write_text("this is no database " * 100)
    with pytest.raises(LocalStackError, match="the database file is damaged"), LocalStack(state):
        pass
    assert not everything_of(state)


def test_a_database_of_a_newer_prefect_is_said(state: Path):
    import sqlite3

    with sqlite3.connect(state / "prefect.db") as database:
        database.execute("update alembic_version set version_num = 'from_the_future'")
    with pytest.raises(LocalStackError, match="newer Prefect"), LocalStack(state):
        pass


def test_a_server_that_takes_too_long_is_given_up(state: Path):
    with pytest.raises(LocalStackError, match="does not answer after 0 s"), LocalStack(state, start_s=0.1):
        pass
    assert not everything_of(state)


@pytest.mark.chaos
def test_a_worker_that_dies_again_and_again_is_given_up(state: Path, stack: LocalStack):
    stack._workers[0].service.command = ["sh", "-c", "echo no such luck; exit 3"]
    process_of(state, "worker").kill()
    with pytest.raises(LocalStackError, match=r"exit status 3(.|\n)*no such luck"):
        until(lambda: stack.check() and False, 30)
