"""What stands behind an instance: here a port of loopback that greets like an SSH server."""

import contextlib
import os
import socketserver
import threading
from itertools import count
from typing import Any, Protocol


class Machines(Protocol):
    """Starts and stops what an instance's address leads to."""

    def start(self, instance_id: str, request: dict[str, Any], public_key: str) -> str:
        """Called while the instance boots; returns its address."""

    def stop(self, instance_id: str) -> None:
        """Called once when the instance ends; also for one that was never started."""


class Greeting(socketserver.BaseRequestHandler):
    """Says what an SSH server says first, and nothing more."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.request.sendall(b"SSH-2.0-Standin\r\n")


class Server(socketserver.ThreadingTCPServer):
    """One greeter."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


class Greeters:
    """An address of loopback for every instance, each with a free port of its own: 22 is not for everyone."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.ports: dict[str, int] = {}  # address → port, also of those that were stopped
        self.numbers = count(1)

    def address(self) -> str:
        """One that nobody else on this machine has."""
        return f"127.{os.getpid() >> 8 & 127 | 64}.{os.getpid() & 255}.{next(self.numbers) % 250 + 1}"

    def start(self, instance_id: str, request: dict[str, Any], public_key: str) -> str:
        server = Server((self.address(), 0), Greeting)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.servers[instance_id] = server
        address, self.ports[address] = server.server_address[0], server.server_address[1]
        return address

    def stop(self, instance_id: str) -> None:
        if server := self.servers.pop(instance_id, None):
            server.shutdown()
            server.server_close()

    async def answers(self, ip: str) -> bool:
        """`greets`, at the port that this address has."""
        from infra.lambda_cloud.boot import greets

        return await greets(ip, self.ports.get(ip, 1))
