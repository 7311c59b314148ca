"""The proxy on the far port of an SSH connection."""

import asyncio
import logging
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncssh
from uvicorn.config import Config
from uvicorn.server import ServerState

from ...brand import BRAND
from .app import JobProxy
from .callers import Callers, Protocol
from .limits import CONNECTIONS, EVENT_BYTES

KEEP_ALIVE_S = 60
SHORTAGE = asyncssh.OPEN_RESOURCE_SHORTAGE
_open: set["asyncio.Task[None]"] = set()  # the event loop itself keeps no reference to a task


async def serve(
    connection: asyncssh.SSHClientConnection, proxy: JobProxy, port: int | None, resources: AsyncExitStack
) -> int:
    """Serve on a port of the box's loopback until the connection ends; return the port.

    Then close `resources`. Only the worker's user can open the socket between the connection and the proxy.
    `asyncssh.ChannelListenError` if the box does not give that port, or any.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{BRAND.name}-tunnel-"))  # only our user can open it
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    state, path = ServerState(), str(folder / "api")
    config = Config(
        proxy,
        http="h11",
        ws="websockets-sansio",
        ws_max_size=EVENT_BYTES,
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,  # its warnings do not name a box
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        server_header=False,
    )
    config.load()
    callers = Callers()

    async def accept(host: str, from_port: int) -> Any:  # a session of asyncssh's own type
        if callers.full:
            raise asyncssh.ChannelOpenError(SHORTAGE, f"more than {CONNECTIONS} connections")
        return await connection.forward_unix_connection(path)

    def answer() -> asyncio.Protocol:
        return Protocol(config, state, callers)

    server = await asyncio.get_running_loop().create_unix_server(answer, path)
    resources.push_async_callback(_end, server, state)
    listener = await connection.create_server(accept, "127.0.0.1", port or 0)
    taken_over = resources.pop_all()

    async def close() -> None:
        async with taken_over:
            await connection.wait_closed()

    closing = asyncio.create_task(close())
    _open.add(closing)
    closing.add_done_callback(_open.discard)
    return int(listener.get_port())


async def _end(server: asyncio.Server, state: ServerState) -> None:
    server.close()
    for protocol in list(state.connections):
        if transport := getattr(protocol, "transport", None):
            transport.abort()
    for task in list(state.tasks):
        task.cancel()
    await asyncio.gather(*state.tasks, return_exceptions=True)
