import asyncio
import logging

import pytest
from websockets.exceptions import ConnectionClosed

from infra.workers.ssh.proxy.events import NOT_ALLOWED
from tests.infra.workers.ssh.proxy.box_side import far_end
from tests.infra.workers.ssh.proxy.server.test_hostile_box import forged


@pytest.fixture
async def box(locked, own, caplog):
    caplog.set_level(logging.WARNING, "tunnel")
    with locked.settings():
        async with far_end(own) as far:
            yield far


async def end_of(opened):
    with pytest.raises(ConnectionClosed) as caught:
        async with asyncio.timeout(60):
            while True:
                await opened.recv()
    return caught.value.rcvd.code


@pytest.mark.parametrize("path", ["/events/in", "/events/out"])
async def test_a_binary_message_ends_a_socket_with_a_reason(box, caplog, path):
    async with box.socket(path) as opened:
        await opened.send(b"\x00\x1b[2J")
        assert await end_of(opened) == NOT_ALLOWED
    assert any("binary" in record.getMessage() for record in caplog.records if record.name == "tunnel")


async def test_an_event_whose_payload_is_no_object_is_refused_and_the_socket_goes_on(own, box, caplog):
    odd = forged("prefect.task-run.Running", "prefect.task-run.x\nFORGED LINE", own.id, task_run=["id"])
    async with box.socket("/events/in") as opened, asyncio.timeout(60):
        await opened.send(odd)
        while not (lines := [r.getMessage() for r in caplog.records if "EVENT" in r.getMessage()]):
            await asyncio.sleep(0.1)
        await opened.send(odd)
        pong = await opened.ping()
        await pong
    assert not any("\n" in line for line in lines)
