import asyncio
import signal
import subprocess
from multiprocessing import Pipe

import anyio
import pytest

from infra.local.forked import SUPERVISOR, Forks

OPTIONS = {"cwd": "/", "env": {}, "stream_output": False, "task_status_handler": lambda forked: forked}


@pytest.fixture
def process():
    child = subprocess.Popen(["sleep", "30"], start_new_session=True)
    yield child
    child.kill()
    child.wait()


async def test_a_start_that_is_called_off_ends_its_own_process(process):
    ours, theirs = Pipe()
    forks = Forks(ours)
    async with anyio.create_task_group() as calls:
        options = OPTIONS | {"task_status": anyio.TASK_STATUS_IGNORED}
        calls.start_soon(lambda: forks.run_process(["python", *SUPERVISOR], **options))
        with anyio.CancelScope(shield=True):
            while not theirs.poll():
                await asyncio.sleep(0.001)
            calls.cancel_scope.cancel()
            await asyncio.sleep(0.001)
            theirs.send((process.pid, None))
            assert await asyncio.to_thread(process.wait, 10) == -signal.SIGKILL
            theirs.send((process.pid, -signal.SIGKILL))
    asyncio.get_running_loop().remove_reader(ours.fileno())
