"""A stack with workers of two types: one for what runs here, one for what runs on boxes behind SSH."""

from collections.abc import Iterator
from pathlib import Path

import asyncssh
import httpx
import psutil
import pytest

from infra.local.errors import LocalStackError
from infra.local.ports import free_port
from infra.local.stack import LocalStack
from infra.local.workers import PoolWorker
from tests.infra.local.stack_probe import everything_of, stored_states, until

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

START_S = 500  # of a machine that others use too
POOLS = {"ssh": "ssh", "local": "process"}
WORKER = ["prefect", "worker", "start"]
HOST_KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_WORKER_POLL_S", "0.5")


@pytest.fixture
def stack(state: Path) -> Iterator[LocalStack]:
    with LocalStack(state, pools=POOLS, start_s=START_S) as up:
        yield up


class Api:
    """What the server of a stack says of its pools, and runs for boxes that do not answer."""

    def __init__(self, stack: LocalStack) -> None:
        self.http = httpx.Client(base_url=stack.api_url, timeout=20, trust_env=False)

    def online(self, pool: str) -> list[str]:
        workers = self.http.post(f"/work_pools/{pool}/workers/filter", json={}).json()
        return [worker["name"] for worker in workers if worker["status"] == "ONLINE"]

    def post(self, path: str, body: dict[str, object]) -> str:
        """The id of what is made; again where the database is busy."""
        answers: list[httpx.Response] = []
        until(lambda: answers.append(self.http.post(path, json=body)) or answers[-1].status_code != 503, 20)
        assert answers[-1].is_success, answers[-1].text
        return str(answers[-1].json()["id"])

    def start(self) -> str:
        host = {"address": "127.0.0.1", "port": free_port(), "host_key": HOST_KEY}
        variables = {"hosts": [host], "image": "none", "wait_s": 3600}
        deployment = {"name": "away", "flow_id": self.post("/flows/", {"name": "waiting"})}
        deployment |= {"entrypoint": "slow_flow.py:waiting"}
        deployment |= {"work_pool_name": "ssh", "job_variables": variables}
        return self.post(f"/deployments/{self.post('/deployments/', deployment)}/create_flow_run", {})

    def state(self, run: str) -> str:
        return str(self.http.get(f"/flow_runs/{run}").json()["state"]["type"])

    def taken(self, run: str) -> bool:
        """Whether a worker has the run, and has said so."""
        found = self.http.get(f"/flow_runs/{run}").json()
        return found["state"]["type"] == "PENDING" and found["labels"].get("prefect.worker.name") == "ssh"


def worker_of(state: Path, pool: str) -> psutil.Process:
    def those() -> list[psutil.Process]:
        return [one for one in everything_of(state) if one.cmdline()[2:5] == WORKER and pool in one.cmdline()]

    assert until(those, 10)
    return those()[0]


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


@pytest.mark.chaos
def test_a_dead_worker_is_replaced_and_the_other_goes_on(state: Path, stack: LocalStack):
    local, first = worker_of(state, "local"), worker_of(state, "ssh")
    api = Api(stack)
    run = api.start()
    assert until(lambda: api.taken(run), 30)
    first.kill()
    first.wait()
    said = []
    assert until(lambda: said.append(stack.check()) or said[-1], 30)
    assert said[-1] == (
        "The worker of pool ssh had stopped (killed by SIGKILL) while its runs go on, and was started again."
    )
    second = worker_of(state, "ssh")
    assert second.pid != first.pid and local.is_running()
    assert api.state(run) == "PENDING"
    assert stack.check() is None


@pytest.mark.chaos
def test_what_a_stack_left_on_a_box_is_ended_by_the_next_one(state: Path):
    with LocalStack(state, pools=POOLS, start_s=START_S) as stack:
        api = Api(stack)
        run = api.start()
        assert until(lambda: api.taken(run), 30)
        stack._workers.pop().service.stop()  # as if we were killed before anything could be cancelled
    assert stored_states(state) == ["PENDING"]
    with LocalStack(state, pools=POOLS, start_s=START_S) as stack:
        assert until(lambda: Api(stack).state(run) == "CANCELLED", 40)


@pytest.mark.chaos
def test_a_stack_without_the_worker_is_not_joined(state: Path):
    with (
        LocalStack(state, start_s=START_S),
        pytest.raises(LocalStackError, match="has no worker for pool ssh: stop process"),
        LocalStack(state, pools=POOLS, start_s=START_S),
    ):
        pass


@pytest.mark.chaos
def test_a_worker_that_cannot_start_is_said(state: Path):
    with (
        pytest.raises(LocalStackError, match=r"work pool odd could not be created: .*no-such-type"),
        LocalStack(state, pools={"odd": "no-such-type"}, start_s=START_S),
    ):
        pass
    assert not everything_of(state)
