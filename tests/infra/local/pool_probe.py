"""Queries of the pools and workers of a stack."""

import asyncssh
import httpx

from infra.local.ports import free_port
from infra.local.stack import LocalStack
from tests.infra.local.stack_probe import until

START_S = 500  # of a machine that others use too


POOLS = {"ssh": "ssh", "local": "process"}


HOST_KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


class Api:
    def __init__(self, stack: LocalStack) -> None:
        self.http = stack.api

    def online(self, pool: str) -> list[str]:
        workers = self.http.post(f"/work_pools/{pool}/workers/filter", json={}).json()
        return [worker["name"] for worker in workers if worker["status"] == "ONLINE"]

    def post(self, path: str, body: dict[str, object]) -> str:
        """Create an object and return its id; retry if the database is busy."""
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
        """Return whether a worker has reported the run as its own."""
        found = self.http.get(f"/flow_runs/{run}").json()
        return found["state"]["type"] == "PENDING" and found["labels"].get("prefect.worker.name") == "ssh"
