"""The boot of a box, from its launch until it answers."""

import time
from collections.abc import Awaitable, Callable

import anyio

from infra.lambda_cloud.api import LambdaApi
from infra.lambda_cloud.errors import LambdaError, Unavailable
from infra.lambda_cloud.models import ENDED, LambdaInstance
from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import BLOCK, BoxUnreachable, connect

Answers = Callable[[str], Awaitable[bool]]
LOST = ENDED | {"unhealthy", "preempted"}
SSH_PORT = 22
GREETING = b"SSH-2.0"  # RFC 4253, section 4.2
GREETING_WITHIN_S = 10.0


class BadBox(LambdaError):
    """An instance that will not become a box to work on."""


async def greets(ip: str, port: int = SSH_PORT) -> bool:
    """Return True if an SSH server answers there."""
    heard = b""
    try:
        with anyio.fail_after(GREETING_WITHIN_S):
            async with await anyio.connect_tcp(ip, port) as stream:
                while len(heard) < len(GREETING):
                    heard += await stream.receive()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):  # TimeoutError is an OSError
        return False
    return heard.startswith(GREETING)


def lets_in(user: str, private_key: str, host_key: str) -> Answers:
    """Return a test for a box that lets this user in and shows this host key.

    Its SSH server runs before either is there.
    """

    async def key_of(name: str) -> str:
        return private_key

    async def answers(ip: str) -> bool:
        try:
            host = Host(address=ip, user=user, key=f"{BLOCK}lease", host_key=host_key)
            connection = await connect(host, key_of)
        except (JobRefused, BoxUnreachable):
            return False
        connection.close()
        return True

    return answers


async def booted(
    api: LambdaApi,
    instance_id: str,
    within_s: float,
    answers: Answers,
    meanwhile: Callable[[list[LambdaInstance]], Awaitable[None]],
) -> LambdaInstance:
    """Wait until an instance is active, has an address, and SSH answers there as is wanted.

    Args:
        meanwhile: is shown every list of the account's instances.

    Raises:
        BadBox: it became something else, or none of that came within `within_s` seconds.
    """
    limit = time.monotonic() + within_s
    seen = False
    state = "it was never listed"
    while True:
        listed = await _listed(api)
        if listed is not None:
            instance = next((i for i in listed if i.id == instance_id), None)
            await meanwhile(listed)
            if instance is None and seen:
                raise BadBox("it is not listed any more")
            if instance is not None:
                seen = True
                state = _state(instance)
                if await _answers(instance, answers, limit):
                    return instance
        if time.monotonic() >= limit:
            raise BadBox(f"no SSH server answered within {within_s:g} s of the launch: {state}")
        await anyio.sleep(api.pace.look_s)


async def _listed(api: LambdaApi) -> list[LambdaInstance] | None:
    """List all instances; None while the API is out of order, which is no fault of the box."""
    try:
        return await api.instances()
    except Unavailable:
        return None


def _state(instance: LambdaInstance) -> str:
    if instance.status in LOST:
        raise BadBox(f"it is {instance.status}")
    return f"it is {instance.status}, {'with' if instance.ip else 'without'} an address"


async def _answers(instance: LambdaInstance, answers: Answers, limit: float) -> bool:
    if instance.status != "active" or not instance.ip:
        return False
    with anyio.move_on_after(max(limit - time.monotonic(), GREETING_WITHIN_S)):
        return await answers(instance.ip)
    return False
