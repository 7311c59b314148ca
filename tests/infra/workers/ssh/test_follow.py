"""What is said of a container that its box's runtime does not stop."""

import asyncio
import logging
import uuid

from prefect import states
from prefect.client.schemas.objects import FlowRun

from infra.workers.ssh.box import Look
from infra.workers.ssh.configuration import Host, SshJobConfiguration
from infra.workers.ssh.follow import STOPS, SshFollow
from infra.workers.ssh.settings import SshSettings


class Box:
    """A box whose container runs on, whatever it is asked."""

    connection = type("Connection", (), {"abort": lambda self: None})()

    def __init__(self):
        self.asked = 0

    async def look(self, name):
        return Look(state="running")

    async def lines(self, name, seen):
        yield b"step 1\n"
        await asyncio.sleep(60)

    async def stop(self, name):
        self.asked += 1
        return False


async def test_a_cancelled_container_that_does_not_stop_is_not_called_stopped():
    sent = []

    async def send(lines):
        sent.extend(line.message for line in lines)

    box = Box()
    follow = SshFollow(
        run=FlowRun(flow_id=uuid.UUID(int=1), state=states.Running()),
        job_id="job",
        log=logging.LoggerAdapter(logging.getLogger("test"), {}),
        set_labels=send,
        host=Host(address="10.0.0.1"),
        name="lane-1",
        configuration=SshJobConfiguration.model_construct(lost_s=5),
        box=box,
        tunnel=None,
        secret_of=None,
        send=send,
        settings=SshSettings(flush_s=0.05),
    )
    async with asyncio.timeout(20):
        ending = asyncio.create_task(follow.to_the_end())
        while not sent:
            await asyncio.sleep(0.01)
        follow.cancel()
        ended = await ending
    assert box.asked == STOPS
    assert ended.name == "Cancelled" and "the job was stopped" not in ended.message
    assert "did not stop the job lane-1: stop it by hand" in ended.message
