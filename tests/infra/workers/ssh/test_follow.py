import asyncio
import datetime as dt
import logging
import uuid
from types import SimpleNamespace

import pytest
from prefect import states
from prefect.client.schemas.objects import FlowRun

from infra.workers.base.outcome import BEGAN_LABEL, PULL_LABEL, QUEUE_LABEL
from infra.workers.ssh import follow as following
from infra.workers.ssh.box import Look
from infra.workers.ssh.configuration import Host, SshJobConfiguration
from infra.workers.ssh.connection import BoxUnreachable
from infra.workers.ssh.follow import STOPS, SshFollow
from infra.workers.ssh.proxy.limits import ROW_BYTES, Allowance, Allowances
from infra.workers.ssh.settings import SshSettings
from tasks.dispatch.job_end import had_machine


class Box:
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


class Started(Box):
    begun, ago = False, {}

    async def look(self, name):
        if not self.begun:
            return Look(state="running")
        return Look(state="ended", code=0, pulled_s=3, **self.ago)

    async def lines(self, name, seen):
        self.begun = True
        yield b"on\n"


def followed(box, send, set_labels, timeout_s=60):
    return SshFollow(
        run=FlowRun(flow_id=uuid.UUID(int=1), state=states.Running()),
        job_id="job",
        log=logging.LoggerAdapter(logging.getLogger("test"), {}),
        set_labels=set_labels,
        host=Host(address="10.0.0.1"),
        name="lane-1",
        configuration=SshJobConfiguration.model_construct(lost_s=5, timeout_s=timeout_s),
        box=box,
        tunnel=SimpleNamespace(limits=Allowances()),
        secret_of=None,
        send=send,
        settings=SshSettings(flush_s=0.05),
        waited_s=12.5,
    )


async def test_a_cancelled_container_that_does_not_stop_is_not_called_stopped():
    sent = []

    async def send(lines):
        sent.extend(line.message for line in lines)

    box = Box()
    follow = followed(box, send, send)
    async with asyncio.timeout(20):
        ending = asyncio.create_task(follow.to_the_end())
        while not sent:
            await asyncio.sleep(0.01)
        follow.cancel()
        ended = await ending
    assert box.asked == STOPS
    assert ended.name == "Cancelled" and "the job was stopped" not in ended.message
    assert "did not stop job lane-1: stop it by hand" in ended.message


async def test_a_job_that_began_is_labelled_once_with_the_times_of_its_start_for_it_costs():
    labelled = []

    async def send(lines):
        pass

    async def set_labels(labels):
        labelled.append(labels)

    async with asyncio.timeout(20):
        assert (await followed(Started(), send, set_labels).to_the_end()).name == "Exited"
    (labels,) = labelled
    assert labels == {QUEUE_LABEL: 12.5, "ssh.waited_s": 12.5, PULL_LABEL: 3, "ssh.pulled_s": 3}
    never_ran = FlowRun(flow_id=uuid.UUID(int=1), state=states.Crashed())
    assert had_machine(never_ran.model_copy(update={"labels": labels})) and not had_machine(never_ran)


async def nothing(labels):
    pass


async def test_a_box_that_never_ends_its_job_is_lost_after_its_time(monkeypatch):
    """Also one that breaks each connection, so that `lost_s` never passes."""

    class Breaks(Box):
        async def lines(self, name, seen):
            yield b"step\n"
            raise BoxUnreachable("The connection was lost.")

    async def connect(*args, **kwargs):
        raise BoxUnreachable("It does not answer.")

    monkeypatch.setattr(following, "SPARE_S", 0.2)
    monkeypatch.setattr(following, "connect", connect)
    for box in (Box(), Breaks()):
        follow = followed(box, nothing, nothing, timeout_s=0.2)
        if isinstance(box, Breaks):
            monkeypatch.setattr(follow, "_connected", lambda box=box: asyncio.sleep(0, box))
        async with asyncio.timeout(20):
            ended = await follow.to_the_end()
        assert (ended.name, ended.cause) == ("Lost", "unreachable")


async def test_a_log_without_an_end_is_read_to_its_allowance_and_the_job_followed_on():
    """`tail` on the box can be any program; the server stores every line."""
    sent = []

    class Floods(Box):
        looks = 0

        async def look(self, name):
            self.looks += 1
            return Look(state="running") if self.looks < 4 else Look(state="ended", code=0, pulled_s=1)

        async def lines(self, name, seen):
            while True:
                yield b"y\n" * 5000
                await asyncio.sleep(0)

    async def send(lines):
        sent.extend(line.message for line in lines)

    follow = followed(Floods(), send, nothing)
    follow.settings = SshSettings(flush_s=0.05, poll_s=0.05)
    follow.tunnel.limits.logged = Allowance(15_000 * (2 + ROW_BYTES), 0.001)
    async with asyncio.timeout(60):
        assert (await follow.to_the_end()).name == "Exited"
    assert sent == ["y"] * 15_000


async def test_a_job_that_printed_too_much_can_still_be_cancelled():
    class Floods(Box):
        async def lines(self, name, seen):
            while True:
                yield b"x" * 65536
                await asyncio.sleep(0)

        async def stop(self, name):
            self.asked += 1
            return True

    follow = followed(box := Floods(), nothing, nothing)
    follow.settings = SshSettings(flush_s=0.05, poll_s=0.05)
    follow.tunnel.limits.logged = Allowance(1, 0.001)
    async with asyncio.timeout(20):
        ending = asyncio.create_task(follow.to_the_end())
        while not follow._muted:
            await asyncio.sleep(0.01)
        follow.cancel()
        assert (await ending).name == "Cancelled" and box.asked == 1


async def test_a_job_has_the_times_of_its_box_though_its_worker_looked_much_later():
    labelled = []

    async def send(lines):
        pass

    async def set_labels(labels):
        labelled.append(labels)

    box = Started()
    box.begun, box.ago = True, {"began_ago_s": 3600, "ended_ago_s": 3588}
    follow = followed(box, send, set_labels)
    async with asyncio.timeout(20):
        await follow.to_the_end()
    times = follow.machine_time
    assert (times.ended - times.began).total_seconds() == pytest.approx(12, abs=0.1)
    assert (dt.datetime.now(dt.UTC) - times.began).total_seconds() == pytest.approx(3600, abs=20)
    assert labelled[0][BEGAN_LABEL] == pytest.approx(times.began.timestamp(), abs=20)


@pytest.mark.parametrize("ago", [{"began_ago_s": 10**12 - 1}, {"began_ago_s": 0, "ended_ago_s": 10**12 - 1}])
async def test_a_box_cannot_change_a_bill_beyond_the_times_that_its_worker_saw(ago):
    async def nothing(_):
        pass

    created = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=60)
    follow = followed(Started(), nothing, nothing)
    follow.run.created = created
    follow.box.ago = {"ended_ago_s": 0} | ago
    async with asyncio.timeout(20):
        await follow.to_the_end()
    times = follow.machine_time
    assert times.began >= created
    assert times.ended >= follow._ran_at > created, "it was seen to run then"
