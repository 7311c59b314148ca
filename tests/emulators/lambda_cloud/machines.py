"""Machines behind instances: here a port of loopback that greets like an SSH server."""

import contextlib
import os
import socketserver
import threading
from itertools import count
from typing import Any, Protocol


class Machines(Protocol):
    def start(self, instance_id: str, request: dict[str, Any], public_key: str) -> str:
        """Start a machine while its instance boots; return its address."""

    def stop(self, instance_id: str) -> None:
        """Stop a machine once, also if it was never started."""


class Greeting(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.request.sendall(b"SSH-2.0-Standin\r\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


class Greeters:
    """A loopback address for every instance, each with a free port: port 22 needs root."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.ports: dict[str, int] = {}  # address → port, also of those that were stopped
        self.numbers = count(1)

    def address(self) -> str:
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
        from infra.lambda_cloud.boot import greets

        return await greets(ip, self.ports.get(ip, 1))
