import asyncio
import contextlib

import asyncssh
import pytest

from infra.lambda_cloud import boot
from infra.lambda_cloud.boot import BadBox, BoxRefusesUs, greets, lets_in
from infra.lambda_cloud.errors import NoCapacity
from infra.lambda_cloud.rent import key_pair
from tests.emulators.lambda_cloud.control import Fate
from tests.emulators.lambda_cloud.quick import (
    A10,
    nothing_left,
    soon,
    taker,
    wish,
)

EAST, WEST, SOUTH = "us-east-1", "us-west-1", "us-south-1"
H100, GH200 = "gpu_1x_h100_pcie", "gpu_1x_gh200"


@pytest.fixture
def said():
    return []


@pytest.fixture
def take(cloud, api, said):
    return taker(cloud, api, said)


BAD = [
    (Fate("unhealthy", 0.01), "it is unhealthy"),
    (Fate("preempted", 0.01), "it is preempted"),
]


@pytest.mark.parametrize(("fate", "words"), BAD)
async def test_a_box_that_goes_bad_is_returned_and_another_rented(cloud, take, said, fate, words):
    cloud.control.boot_s = 0.2
    cloud.control.fates += [fate, None]
    instance = await take(wish())
    assert [i.id for i in cloud.account.running() if i.status == "active"] == [instance.id]
    bad, good = cloud.account.launched
    assert good.id == instance.id and bad.ending.is_set()
    assert any("is given back" in line and words in line for line in said)
    assert good.request["name"] == f"{take.lease.name}-2"


SLOW = [
    (Fate("no_ip"), "it is active, without an address"),
    (Fate("never_active"), "it is booting, with an address"),
    (Fate("mute"), "it is active, with an address"),
]


@pytest.mark.parametrize(("fate", "words"), SLOW)
async def test_a_box_that_never_answers_is_returned(cloud, take, said, fate, words):
    cloud.control.boot_s = 0
    cloud.control.fates += [fate]
    with pytest.raises(BadBox, match=f"1 boxes in a row.*within 1 s of the launch: {words}"):
        await take(wish(boot_within_s=1, boxes=1))
    assert nothing_left(cloud)
    assert len(cloud.account.launched) == 1


async def test_boxes_are_not_tried_for_ever(cloud, take):
    cloud.control.fates += [Fate("unhealthy")] * 9
    with pytest.raises(BadBox, match="2 boxes in a row failed to boot; the last: gpu_1x_a10 in us-east-1"):
        await take(wish(boxes=2))
    assert len(cloud.account.launched) == 2
    assert nothing_left(cloud)


async def test_after_a_bad_box_another_region_comes_first(cloud, take):
    cloud.control.capacity |= {(A10, WEST): 1}
    cloud.control.fates += [Fate("unhealthy")]
    assert (await take(wish())).region.name == WEST


async def test_no_other_box_is_launched_after_the_deadline(cloud, take):
    wanted = wish(until_s=4, boot_within_s=3.5)

    async def answers(ip):
        await asyncio.sleep(max((wanted.until - soon(0)).total_seconds(), 0) + 0.01)
        return False

    cloud.control.boot_s = 0
    with pytest.raises(NoCapacity):
        await take(wanted, answers)
    assert len(cloud.account.launched) == 1
    assert nothing_left(cloud)


async def test_a_box_that_is_listed_late_is_waited_for(cloud, take):
    cloud.control.listed_after_s = 0.3
    instance = await take(wish())
    assert [i.id for i in cloud.account.launched] == [instance.id]


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400\r\n", b"SSH", b""])
async def test_only_an_ssh_banner_counts_as_a_greeting(greeting):
    async def greet(reader, writer):
        writer.write(greeting)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await greets("127.0.0.1", port) == greeting.startswith(b"SSH-2.0")
    assert not await greets("127.0.0.1", port)


HOST, LOGIN, OTHER = key_pair("host"), key_pair("login"), key_pair("other")


@contextlib.asynccontextmanager
async def ssh_server(host=HOST, login=LOGIN):
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.import_private_key(host.private)],
        authorized_client_keys=asyncssh.import_authorized_keys(login.public),
    )
    answers = lets_in("ubuntu", LOGIN.private, HOST.public, server.get_port())

    async def there(ip):
        return await answers("127.0.0.1")

    try:
        yield there
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"host": OTHER}, "shows the key ssh-ed25519 .* instead of ssh-ed25519 "),
        ({"login": OTHER}, "does not accept ubuntu with block:lease"),
    ],
)
async def test_a_box_that_refuses_us_is_reported_at_once_and_no_other_is_rented(
    cloud, take, said, monkeypatch, keys, words
):
    monkeypatch.setattr(boot, "REFUSED_S", 0.3)
    async with ssh_server(**keys) as answers:
        task = asyncio.create_task(take(wish(boot_within_s=1000), answers))
        while not any("Trying again" in line for line in said):
            await asyncio.sleep(0.01)
            assert not task.done()
        with pytest.raises(BoxRefusesUs, match=f"{words}.*another box would do the same"):
            await asyncio.wait_for(task, 30)
    assert len(cloud.account.launched) == 1 and nothing_left(cloud)
    assert sum("Trying again" in line for line in said) == 1


async def test_keys_that_come_a_little_late_are_waited_for(cloud, take, said):
    async with ssh_server() as late, ssh_server(host=OTHER) as early:

        async def answers(ip):
            return await (late if any("Trying again" in line for line in said) else early)(ip)

        instance = await take(wish(), answers)
    assert [i.id for i in cloud.account.running()] == [instance.id]


async def test_why_a_box_was_out_of_reach_is_reported(cloud, take):
    answers = lets_in("ubuntu", LOGIN.private, HOST.public, 1)
    cloud.control.boot_s = 0
    with pytest.raises(BadBox, match=r"it is active, with an address; Box .* does not answer \(Connect"):
        await take(wish(boot_within_s=1, boxes=1), answers)
