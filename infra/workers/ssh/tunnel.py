"""The way from a box back to the Prefect API: a port of the box that ends at the worker's side."""

import asyncio

import asyncssh

from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.box import Look, SshBox
from infra.workers.ssh.command_line import ApiAddress, api_of
from infra.workers.ssh.configuration import SshJobConfiguration
from infra.workers.ssh.connection import LOST, BoxUnreachable, error_text

TRIES, PAUSE_S = 10, 0.5  # until the port of an ended session is free


async def tunnel(connection: asyncssh.SSHClientConnection, api: ApiAddress, port: int | None) -> int:
    """Open the tunnel for as long as the connection lasts. Returns the box's port.

    Args:
        connection: to the box.
        api: what the tunnel leads to.
        port: that a container has already; None for any.

    Raises:
        JobRefused: the box allows no tunnels.
        BoxUnreachable: the port is still taken, or the connection was lost.
    """
    for _ in range(TRIES if port else 1):
        try:
            listener = await connection.forward_remote_port("127.0.0.1", port or 0, api.host, api.port)
            return int(listener.get_port())
        except asyncssh.ChannelListenError:
            await asyncio.sleep(PAUSE_S if port else 0)
        except (*LOST, asyncssh.Error) as error:
            raise BoxUnreachable(f"The connection was lost ({error_text(error)}).") from None
    if port:
        raise BoxUnreachable(f"Port {port} of the box is still taken.")
    raise JobRefused(
        "It allows no tunnel to the Prefect API: set AllowTcpForwarding in its sshd_config, or tunnel to "
        "false where it reaches the API by itself.",
        "Unfit",
    )


async def take_over(
    box: SshBox, name: str, look: Look, configuration: SshJobConfiguration, *, waiting: bool = False
) -> None:
    """Follow a job by this connection, with the tunnel whose port its container knows, or a `waiting` one."""
    await box.own(name)
    if look.port and (waiting or look.state == "running"):
        await tunnel(box.connection, api_of(configuration.env.get("PREFECT_API_URL") or ""), look.port)
