"""An SSH server of this process that accepts every login and scripts every answer."""

import asyncio
import contextlib
import threading

import asyncssh

KEY = asyncssh.generate_private_key("ssh-ed25519")
PINNED = KEY.export_public_key().decode().strip()


class _LetsEverybodyIn(asyncssh.SSHServer):
    def begin_auth(self, username):
        return False


@contextlib.asynccontextmanager
async def answering(answer):
    """Serve commands; `answer` returns their stdout, stderr and exit code."""

    async def run(process):
        output, errors, code = answer((process.command or "").split())
        process.stdout.write(output.encode())
        process.stderr.write(errors.encode())
        process.exit(code)

    here = {"server_host_keys": [KEY], "server_factory": _LetsEverybodyIn, "encoding": None}
    async with asyncssh.listen("127.0.0.1", 0, process_factory=run, **here) as server:
        yield server.get_port()


@contextlib.asynccontextmanager
async def connected(answer):
    async with answering(answer) as port:
        options = {"username": "box", "known_hosts": None, "client_keys": None, "config": None}
        async with asyncssh.connect("127.0.0.1", port, **options) as connection:
            yield connection


@contextlib.contextmanager
def answering_elsewhere(answer):
    """Serve in a thread, for a command with its own event loop; yield the port."""
    loop, ended, ports = asyncio.new_event_loop(), asyncio.Event(), []
    ready = threading.Event()

    async def serve():
        async with answering(answer) as port:
            ports.append(port)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        loop.close()
