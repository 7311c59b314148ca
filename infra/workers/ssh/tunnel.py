"""The tunnel from a box to the worker's proxy."""

import asyncio
import logging
import secrets
import tomllib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncssh
from prefect.client.orchestration import get_client

from ..base.job_configuration import JobRefused
from .box import Look, SshBox
from .command_line import PROFILE, TOKEN
from .configuration import Host
from .connection import LOST, BoxUnreachable, error_text
from .proxy.app import JobProxy
from .proxy.limits import Allowances
from .proxy.serve import serve

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

TRIES, PAUSE_S = 10, 0.5  # until the port of an ended session is free


@dataclass(eq=False)
class Tunnel:
    """The tunnel of one job's container to the Prefect API, over changing connections.

    Attributes:
        token: of a new job's container; it opens only this tunnel.
        tokens: all valid ones: a worker that takes over learns the container's from the box.
    """

    run: "FlowRun"
    log: "logging.LoggerAdapter[Any]"
    token: str = field(default_factory=lambda: f"box:{secrets.token_urlsafe(32)}")
    tokens: set[str] = field(default_factory=set)
    limits: Allowances = field(default_factory=Allowances)

    def __post_init__(self) -> None:
        self.tokens.add(self.token)

    async def open(self, connection: asyncssh.SSHClientConnection, host: Host, port: int | None) -> int:
        """Return the box's port; `port` is one that a container has already.

        `JobRefused` if the box allows no tunnels, `BoxUnreachable` for a taken port or a lost connection.
        """
        for _ in range(TRIES if port else 1):
            try:
                return await self._serve(connection, host, port)
            except asyncssh.ChannelListenError:
                await asyncio.sleep(PAUSE_S if port else 0)
            except (*LOST, asyncssh.Error) as error:
                raise BoxUnreachable(f"The connection was lost ({error_text(error)}).") from None
        if port:
            raise BoxUnreachable(f"Port {port} of the box is still in use.")
        raise JobRefused(
            "It does not allow a tunnel to the Prefect API: set AllowTcpForwarding in its sshd_config, or tunnel to "
            "false if the box can reach the API directly.",
            "Unfit",
        )

    async def _serve(self, connection: asyncssh.SSHClientConnection, host: Host, port: int | None) -> int:
        async with AsyncExitStack() as stack:
            # a flood does not use the worker's own client
            client = await stack.enter_async_context(get_client())
            proxy = JobProxy(self.run, str(host), client, self.log, self.tokens, self.limits)
            taken = await serve(connection, proxy, port, stack)
        return taken

    async def take_over(
        self, box: SshBox, name: str, look: Look, host: Host, *, waiting: bool = False
    ) -> None:
        await box.own(name)
        if look.port and (waiting or look.state == "running"):
            await self.learn(box, name)
            await self.open(box.connection, host, look.port)

    async def learn(self, box: SshBox, name: str) -> None:
        try:
            profile = tomllib.loads(await box.secret(name))
            self.tokens.add(str(profile["profiles"][PROFILE][TOKEN]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # the container does not exist yet, or no longer
