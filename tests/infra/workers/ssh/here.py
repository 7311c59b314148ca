"""This machine as a box: its scripts run here, in a home folder of a test, with commands that the test makes."""

import asyncio
import os
from types import SimpleNamespace


class Here:
    """In place of a connection to a box."""

    def __init__(self, home):
        self.home, self.commands = home, home / "bin"
        self.commands.mkdir()
        self.environ = os.environ | {"HOME": str(home), "PATH": f"{self.commands}:{os.environ['PATH']}"}

    def command(self, name, script):
        """Make a command of that box, in the place of its own."""
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    async def run(self, command, input, encoding):
        """What asyncssh's connection does."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.home, env=self.environ
        )
        stdout, stderr = await process.communicate(input)
        return SimpleNamespace(exit_status=process.returncode, stdout=stdout, stderr=stderr)
