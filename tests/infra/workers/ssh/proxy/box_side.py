"""The far end of a tunnel: an SSH server of this process, and a user of the box."""

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass

import asyncssh
import httpx
from prefect.client.schemas.objects import FlowRun
from websockets.asyncio.client import connect as open_socket

from infra.workers.ssh.configuration import Host
from infra.workers.ssh.proxy.limits import Allowances
from infra.workers.ssh.tunnel import Tunnel

LOG = logging.getLogger("tunnel")
SERVER_KEY = asyncssh.generate_private_key("ssh-ed25519")


class _LetsEverybodyIn(asyncssh.SSHServer):
    """Accept every login and forward requested ports, like sshd."""

    def begin_auth(self, username):
        return False

    def server_requested(self, listen_host, listen_port):
        return True


@dataclass
class Far:
    port: int
    token: str
    connection: asyncssh.SSHClientConnection
    limits: Allowances

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def http(self, token: str | None = None) -> httpx.AsyncClient:
        auth = httpx.BasicAuth(*(self.token if token is None else token).split(":", 1))
        return httpx.AsyncClient(base_url=self.url, auth=auth, timeout=60, trust_env=False)

    async def raw(self, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(sent)
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(reader.read(65536), 5)
            return b""
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def socket(self, path: str, token: str | None = None):
        url = f"ws://127.0.0.1:{self.port}/api{path}"
        async with open_socket(url, subprotocols=["prefect"], proxy=None) as opened:
            await opened.send(json.dumps({"type": "auth", "token": self.token if token is None else token}))
            assert json.loads(await opened.recv()) == {"type": "auth_success"}
            yield opened


@contextlib.asynccontextmanager
async def far_end(run: FlowRun):
    known = SERVER_KEY.export_public_key().decode().strip()
    here = {"host": "127.0.0.1", "server_host_keys": [SERVER_KEY]}
    async with asyncssh.listen(port=0, server_factory=_LetsEverybodyIn, **here) as server:
        host = Host(address="127.0.0.1", user="box", port=server.get_port(), host_key=known)
        options = {"username": "box", "known_hosts": None, "client_keys": None, "config": None}
        async with asyncssh.connect(host.address, host.port, **options) as connection:
            tunnel = Tunnel(run, LOG)
            port = await tunnel.open(connection, host, None)
            yield Far(port, tunnel.token, connection, tunnel.limits)
