import asyncio
import signal
import socket
from pathlib import Path

import httpx
import pytest
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from infra.local.access import auth_file
from infra.local.errors import LocalStackError
from infra.local.ports import port_taken
from infra.local.stack import LocalStack, running_api
from tests.emulators.prefect_api import client_of
from tests.infra.local.stack_ports import SLOW_S
from tests.infra.local.stack_probe import Holder, Runs, everything_of, stored_states, until

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


def port_of(api_url: str) -> int:
    return int(api_url.rsplit(":", 1)[1].removesuffix("/api"))


def refuses_strangers(state: Path, stack: LocalStack) -> None:
    """Assert that other users and other sites' pages are refused, and the form takes no command."""
    password = auth_file(state)
    assert (state.stat().st_mode & 0o777, password.stat().st_mode & 0o777) == (0o700, 0o600)
    secret = password.read_text()
    assert not [one for one in everything_of(state) if any(secret in word for word in one.cmdline())]
    asked = f"{stack.api_url}/flows/filter"
    with httpx.Client(trust_env=False) as stranger:
        for auth in (None, ("gridbench", "guessed")):
            assert stranger.get(f"{stack.api_url}/admin/version", auth=auth).status_code == 401
            refused = stranger.post(asked, json={}, auth=auth)
            # a browser that were asked for a password would send it along with the requests of any page
            assert refused.status_code == 401 and "www-authenticate" not in refused.headers
        origins = {"http://evil.example": None, stack.ui_url: stack.ui_url}
        for origin, allowed in origins.items():
            asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            answer = stranger.options(asked, headers=asks)
            assert answer.headers.get("access-control-allow-origin") == allowed
    template = stack.api.get("/work_pools/local").json()["base_job_template"]
    for part in (template["job_configuration"], template["variables"]["properties"]):
        assert not {"command", "env", "working_dir"} & part.keys() and "stream_output" in part


async def answers_many_at_once(state: Path, stack: LocalStack) -> None:
    """Send a client's first requests at once; none must spoil another."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        async with client_of(stack.api_url, state) as client:
            await asyncio.gather(*(client.read_flow_runs(limit=1) for _ in range(8)))


def test_a_local_stack_runs_a_flow_and_leaves_nothing(state: Path):
    with LocalStack(state) as stack:
        assert stack.ui_url == stack.api_url.removesuffix("/api")
        assert running_api(state) == stack.api_url
        assert stack.check() is None
        refuses_strangers(state, stack)
        asyncio.run(answers_many_at_once(state, stack))
        runs = Runs(state, stack.api_url)
        runs.wait(runs.start(seconds=0), "COMPLETED")
    assert running_api(state) is None
    assert not everything_of(state)
    assert port_taken("127.0.0.1", port_of(stack.api_url)) is None
    stack.stop()


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("number", "status", "outcome"),
    [
        (signal.SIGINT, 1, "CANCELLED"),
        (signal.SIGTERM, 143, "CANCELLED"),
        (signal.SIGKILL, -9, "CRASHED"),
    ],
)
def test_a_signal_to_its_owner_ends_everything(
    state: Path, holder: Holder, number: int, status: int, outcome: str
):
    runs = Runs(state, holder.api_url)
    runs.wait(runs.start(), "RUNNING")
    assert until(lambda: "sleep" in {one.name() for one in everything_of(state)}, SLOW_S)
    holder.process.send_signal(number)
    assert until(lambda: not everything_of(state), SLOW_S), everything_of(state)
    assert holder.process.wait(SLOW_S) in (status, -number)
    assert port_taken("127.0.0.1", port_of(holder.api_url)) is None
    assert stored_states(state) == [outcome]
    assert running_api(state) is None


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


def test_a_port_in_use_is_reported(state: Path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(LocalStackError, match=f"Port {port} "), LocalStack(state, port=port):
            pass
    with LocalStack(state, port=port) as stack:
        assert stack.api_url == f"http://127.0.0.1:{port}/api"
    assert not everything_of(state)


def test_a_damaged_database_is_reported(state: Path):
    (state / "prefect.db").write_text("this is no database " * 100)
    with pytest.raises(LocalStackError, match="the database file is damaged"), LocalStack(state):
        pass
    assert not everything_of(state)


def test_a_database_of_a_newer_prefect_is_reported(state: Path):
    import sqlite3

    with sqlite3.connect(state / "prefect.db") as database:
        database.execute("update alembic_version set version_num = 'from_the_future'")
    with pytest.raises(LocalStackError, match="newer Prefect"), LocalStack(state):
        pass


def test_a_server_that_takes_too_long_is_given_up(state: Path):
    with pytest.raises(LocalStackError, match="does not answer after 0 s"), LocalStack(state, start_s=0.1):
        pass
    assert not everything_of(state)
