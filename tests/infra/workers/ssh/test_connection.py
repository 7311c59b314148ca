import asyncio
import contextlib
import resource

import asyncssh
import pytest

from infra.workers.ssh.box import SshBox
from infra.workers.ssh.connection import ANSWER_BYTES, BoxUnreachable, call

SERVER_KEY = asyncssh.generate_private_key("ssh-ed25519")


class _LetsEverybodyIn(asyncssh.SSHServer):
    def begin_auth(self, username):
        return False


@contextlib.asynccontextmanager
async def served(answer):
    async def handle(process):
        with contextlib.suppress(OSError, asyncssh.Error):
            await answer(process)

    here = {"host": "127.0.0.1", "server_host_keys": [SERVER_KEY], "encoding": None}
    async with asyncssh.listen(
        port=0, server_factory=_LetsEverybodyIn, process_factory=handle, **here
    ) as server:
        options = {"username": "box", "known_hosts": None, "client_keys": None, "config": None}
        connection = await asyncssh.connect("127.0.0.1", server.get_port(), **options)
        try:
            yield connection
        finally:
            connection.abort()


def endless(stream):
    async def answer(process):
        while True:
            getattr(process, stream).write(b"A" * 65536)
            await getattr(process, stream).drain()

    return answer


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_an_answer_without_an_end_is_cut_off(stream):
    """`gridbench ssh check` held 2 GB of such an answer after 12 s."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with served(endless(stream)) as connection, asyncio.timeout(60):
        with pytest.raises(BoxUnreachable, match="more than"):
            await call(connection, "check")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib * 1024 < 64 * ANSWER_BYTES


async def test_an_answer_is_whole_with_its_exit_code_and_both_outputs():
    async def answer(process):
        process.stdout.write(await process.stdin.read())
        process.stderr.write(b"y" * 1000)
        process.exit(75)

    async with served(answer) as connection, asyncio.timeout(60):
        done = await call(connection, "check", b"x" * 500_000)
    assert (done.exit_status, done.stdout, done.stderr) == (75, b"x" * 500_000, b"y" * 1000)


async def never(process):
    process.stdout.write_eof()
    await asyncio.sleep(60)


async def test_a_box_that_never_closes_is_left_in_time():
    async with served(never) as connection, asyncio.timeout(30):
        with pytest.raises(BoxUnreachable):
            await call(connection, "look", within_s=0.5)
        box = SshBox(connection, ["docker"])
        box._home = "/root"
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("infra.workers.ssh.box.ANSWER_S", 0.5)
            with pytest.raises(BoxUnreachable):
                async for _ in box.lines("job", 0):
                    pass
        reading = asyncio.create_task(anext(box.lines("job", 0), None))
        await asyncio.sleep(0.2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
