"""Requests of the smoke script to Lambda, each named like the belief that it tests."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import asyncssh
import httpx

from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.errors import LambdaError
from infra.lambda_cloud.give_back import OVER
from infra.lambda_cloud.lease import Lease, lease_of
from infra.lambda_cloud.rent import RentedBox, key_pair
from infra.workers.ssh.answers import text_of
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import call, connect
from tests.emulators.lambda_cloud.reasons import INVALID, INVALID_KEY, NO_INSTANCE

NOWHERE = {"region_name": "nowhere-1", "instance_type_name": "gpu_0x_none", "ssh_key_names": ["none"]}
TOOLS = ("flock", "setsid", "xargs", "tail", "ps")
CHECKS = {
    "docker": "sudo -n docker info >/dev/null 2>&1 && echo yes",
    "gpus": "sudo -n docker info 2>/dev/null | grep -qi nvidia && nvidia-smi >/dev/null && echo yes",
    "tools": f"for tool in {' '.join(TOOLS)}; do command -v $tool; done | wc -l",
    "docker_without_sudo": "docker info >/dev/null 2>&1 && echo yes || echo no",  # for information: not a belief
    "image": ". /etc/os-release; echo $PRETTY_NAME; uname -m; cloud-init --version 2>&1",
}


@dataclass
class Seen:
    answers: dict[str, Any] = field(default_factory=dict)
    differs: dict[str, bool] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)  # of the box, while it booted

    def take(self, name: str, answer: Any, as_believed: bool) -> None:
        self.answers[name], self.differs[name] = answer, not as_believed


async def ask(
    method: str, path: str, body: Any = None, key: str | None = None, agent: str = "gridbench-smoke"
) -> tuple[int, str]:
    await anyio.sleep(PACE_S)
    headers = {"Authorization": f"Bearer {key or api_key()}", "User-Agent": agent}
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.request(method, f"{api_url()}/{path}", json=body, headers=headers)
    try:
        return answer.status_code, str(answer.json()["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return answer.status_code, ""


PACE_S = 1.1  # one request a second


async def free(seen: Seen, api: LambdaApi, name: str) -> None:
    for case, answer, wanted in (
        ("wrong_key", await ask("GET", "instances", key="secret_wrong"), [INVALID_KEY[:2]]),
        ("no_instance", await ask("GET", "instances/none"), [NO_INSTANCE[:2]]),
        (
            "other_agent",
            await ask("GET", "instances", agent=f"python-httpx/{httpx.__version__}"),
            [(200, "")],
        ),
    ):
        seen.take(case, answer, answer in wanted)
    status, code = await ask("POST", "instance-operations/launch", NOWHERE)
    seen.take("no_type", (status, code), status in (400, 404) and code in (INVALID.code, NO_INSTANCE.code))
    public = key_pair(name).public
    await ask("POST", "ssh-keys", {"name": name, "public_key": public})
    again = await ask("POST", "ssh-keys", {"name": name, "public_key": public})
    seen.take("same_name", again, again[0] == 400)
    gone = [key.id for key in await api.ssh_keys() if key.name == name]
    for key_id in gone:
        await api.remove_ssh_key(key_id)
    answer = await ask("DELETE", f"ssh-keys/{(gone or ['none'])[0]}")
    seen.take("key_gone", answer, answer == INVALID[:2])


async def on_the_box(seen: Seen, box: RentedBox, lease: Lease, began: float) -> None:
    seen.answers["login_s"] = round(time.monotonic() - began, 1)
    read = lease_of(box.instance)
    seen.take(
        "tags", box.instance.tags, read is not None and (read.run, read.name) == (lease.run, lease.name)
    )
    seen.take("host_key", seen.refusals or "ours alone", not seen.refusals)

    async def key_of(name: str) -> str:
        return box.private_key

    host = Host(address=box.ip, user=box.user, key="block:smoke", host_key=box.host_key)
    async with await connect(host, key_of) as connection:
        for name, command in CHECKS.items():
            text = text_of((await call(connection, command)).stdout).strip()
            seen.answers[name] = text
            if name in ("docker", "gpus", "tools"):
                seen.differs[name] = text != (str(len(TOOLS)) if name == "tools" else "yes")
        try:
            listener = await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", 9)
            seen.take("tunnel", listener.get_port() > 0, True)
        except (asyncssh.Error, OSError) as error:
            seen.take("tunnel", str(error), False)


async def end(seen: Seen, api: LambdaApi, instance_id: str) -> None:
    ended = {each.id: each.status for each in await api.terminate([instance_id])}
    seen.take("terminate", ended, ended.get(instance_id) in OVER)
    again = await ask("POST", "instance-operations/terminate", {"instance_ids": [instance_id]})
    seen.take("twice", again, again[0] == 200 or again == NO_INSTANCE[:2])


async def quietly(seen: Seen, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work; keep an error of Lambda's as an answer."""
    try:
        await work()
    except LambdaError as error:
        seen.take(name, str(error), False)
