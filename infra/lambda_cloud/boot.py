"""The boot of a box."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from infra.lambda_cloud.api import LambdaApi
from infra.lambda_cloud.errors import LambdaError, Unavailable
from infra.lambda_cloud.give_back import Say
from infra.lambda_cloud.models import ENDED, LambdaInstance
from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import BLOCK, BoxUnreachable, connect

Answers = Callable[[str], Awaitable[bool]]  # for a box's address; can raise JobRefused or BoxUnreachable
LOST = ENDED | {"unhealthy", "preempted"}
SSH_PORT = 22
GREETING = b"SSH-2.0"  # RFC 4253, section 4.2
GREETING_WITHIN_S = 10.0
# cloud-init sets host keys and logins before sshd starts (its unit says Before=sshd.service). An image that
# starts sshd first has this long. After it, the next box would refuse us, too, and cost until `boot_s`.
REFUSED_S = 180.0


class BadBox(LambdaError):
    """An instance that will never be usable."""


class BoxRefusesUs(BadBox):
    """A box that shows another host key or refuses our login: the next one would do the same."""


async def greets(ip: str, port: int = SSH_PORT) -> bool:
    heard = b""
    try:
        with anyio.fail_after(GREETING_WITHIN_S):
            async with await anyio.connect_tcp(ip, port) as stream:
                while len(heard) < len(GREETING):
                    heard += await stream.receive()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):  # TimeoutError is an OSError
        return False
    return heard.startswith(GREETING)


def lets_in(user: str, private_key: str, host_key: str, port: int = SSH_PORT) -> Answers:
    """Return a test that raises a refusal."""

    async def key_of(name: str) -> str:
        return private_key

    async def answers(ip: str) -> bool:
        host = Host(address=ip, user=user, port=port, key=f"{BLOCK}lease", host_key=host_key)
        (await connect(host, key_of)).close()
        return True

    return answers


@dataclass(slots=True)
class Boot:
    """The boot of one instance; `limit` and `refused_at` are on the monotonic clock."""

    answers: Answers
    say: Say
    limit: float
    state: str = "it was never listed"
    refused_at: float | None = None

    async def lets_us_in(self, instance: LambdaInstance) -> bool:
        """Return True once the box accepts our login; raise `BadBox` if it never will."""
        if instance.status in LOST:
            raise BadBox(f"it is {instance.status}")
        self.state = f"it is {instance.status}, {'with' if instance.ip else 'without'} an address"
        if instance.status != "active" or not instance.ip:
            return False
        try:
            with anyio.move_on_after(max(self.limit - time.monotonic(), GREETING_WITHIN_S)):
                return await self.answers(instance.ip)
        except BoxUnreachable as error:
            self.state += f"; {str(error).rstrip('.')}"
        except JobRefused as refusal:
            self._refused(str(refusal))
        return False

    def _refused(self, reason: str) -> None:
        """Report the first refusal, since cloud-init sets keys late; later raise `BoxRefusesUs`."""
        now = time.monotonic()
        if self.refused_at is None:
            self.refused_at = now
            left_s = max(min(REFUSED_S, self.limit - now), 0)
            self.say(
                f"{reason} Trying again for {left_s:.0f} s, because its first boot can set the keys late"
            )
        if now - self.refused_at >= REFUSED_S or now >= self.limit:
            raise BoxRefusesUs(reason.rstrip("."))


async def booted(
    api: LambdaApi,
    instance_id: str,
    boot: Boot,
    meanwhile: Callable[[list[LambdaInstance]], Awaitable[None]],
) -> LambdaInstance:
    """Wait until an instance accepts our login; raise `BadBox` if it ended, or at the boot's limit.

    `meanwhile` receives every list of the account's instances.
    """
    began = time.monotonic()
    seen = False
    while True:
        listed = None
        with suppress(Unavailable):  # a failure of the API is not the box's fault
            listed = await api.instances()
        if listed is not None:
            instance = next((i for i in listed if i.id == instance_id), None)
            await meanwhile(listed)
            if instance is None and seen:
                raise BadBox("it is not listed any more")
            if instance is not None:
                seen = True
                if await boot.lets_us_in(instance):
                    return instance
        if time.monotonic() >= boot.limit:
            within_s = boot.limit - began
            raise BadBox(f"no SSH server answered within {within_s:.3g} s of the launch: {boot.state}")
        await anyio.sleep(api.pace.look_s)
