"""This machine as a box: its scripts run here, in a test's home folder, with a test's commands."""

import asyncio
import contextlib
import os


class Here:
    def __init__(self, home):
        self.home, self.commands = home, home / "bin"
        self.commands.mkdir()
        self.environ = os.environ | {"HOME": str(home), "PATH": f"{self.commands}:{os.environ['PATH']}"}

    def command(self, name, script):
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    async def create_process(self, command, input, encoding):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.home, env=self.environ
        )
        return Command(process, asyncio.create_task(give(process.stdin, input)))


class Command:
    def __init__(self, process, giving):
        self.stdout, self.stderr = process.stdout, process.stderr
        self._process, self._giving = process, giving

    @property
    def exit_status(self):
        return self._process.returncode

    async def wait_closed(self):
        await asyncio.gather(self._giving, self._process.wait())

    def close(self):
        """Leave a running command alone, like sshd."""
        self._giving.cancel()


async def give(stdin, content):
    """Write a command's input, which it can ignore."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(content or b"")
        await stdin.drain()
    stdin.close()
