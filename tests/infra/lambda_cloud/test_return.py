import asyncio
import contextlib

import anyio
import pytest

from infra.lambda_cloud.boot import BadBox
from infra.lambda_cloud.errors import Doubtful, KeyRefused, LambdaQuotaExceeded, NotReturned
from infra.lambda_cloud.give_back import Rented, clear
from infra.lambda_cloud.rent import rent, rented
from tests.emulators.lambda_cloud.quick import PUBLIC_KEY, client, lease, nothing_left, request, until, wish


@pytest.fixture
async def box(api):
    await api.add_ssh_key("key-1", PUBLIC_KEY)
    return await api.launch(request())


class Mistake(Exception):
    pass


async def test_a_failure_in_the_body_returns_the_box(cloud, api):
    with pytest.raises(Mistake):
        async with rented(api, wish(), lease(), print, cloud.machines.answers):
            raise Mistake
    assert len(cloud.account.launched) == 1
    assert nothing_left(cloud)


async def test_a_cancelled_body_returns_the_box(cloud, api):
    held = asyncio.Event()

    async def use():
        async with rented(api, wish(), lease(), print, cloud.machines.answers):
            held.set()
            await asyncio.sleep(600)

    task = asyncio.create_task(use())
    await held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert nothing_left(cloud)


async def test_a_cancel_scope_around_the_body_returns_the_box(cloud, api):
    with anyio.CancelScope() as scope:
        async with rented(api, wish(), lease(), print, cloud.machines.answers):
            scope.cancel()
            await anyio.sleep(600)
    assert scope.cancelled_caught
    assert nothing_left(cloud)


@pytest.mark.parametrize("operation", ["listInstanceTypes", "addSSHKey", "launchInstance", "listInstances"])
async def test_a_cancellation_anywhere_leaves_nothing(cloud, api, operation):
    cloud.control.boot_s = 600
    task = asyncio.create_task(rent(api, wish(), lease(), PUBLIC_KEY, "", print, cloud.machines.answers))
    await until(lambda: cloud.control.asked(operation))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert nothing_left(cloud)


async def test_a_cancellation_while_the_launch_is_answered_leaves_nothing(cloud, api):
    cloud.control.boot_s = 600
    launch, begun = cloud.account.launch, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(*arguments):
        loop.call_soon_threadsafe(task.cancel)
        loop.call_soon_threadsafe(begun.set)
        return launch(*arguments)

    cloud.account.launch = slowly
    task = asyncio.create_task(rent(api, wish(), lease(), PUBLIC_KEY, "", print, cloud.machines.answers))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert begun.is_set() and len(cloud.account.launched) == 1
    assert nothing_left(cloud)


async def test_a_timeout_while_it_boots_leaves_nothing(cloud, api):
    cloud.control.boot_s = 600
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), rented(api, wish(), lease(), print, cloud.machines.answers):
            pass
    assert nothing_left(cloud)


async def test_a_failing_listener_does_not_prevent_a_return(cloud, api):
    def say(words):
        raise Mistake(words)

    with pytest.raises(Mistake):
        await rent(api, wish(), lease(), PUBLIC_KEY, "", say, cloud.machines.answers)
    assert len(cloud.account.launched) == 1
    assert nothing_left(cloud)


async def test_a_box_that_stays_is_noted_on_the_error_and_said(cloud):
    said = []
    async with client(cloud, return_s=0.1) as api:
        with pytest.raises(Mistake) as caught:
            async with rented(api, wish(), lease(), said.append, cloud.machines.answers) as box:
                cloud.control.deaf = 10**9
                raise Mistake
    assert [box.instance.id in note and "janitor" in note for note in caught.value.__notes__] == [True]
    assert caught.value.__notes__[0] in said
    assert cloud.account.key_names() == []


async def test_a_box_that_stays_is_said_after_a_success(cloud):
    async with client(cloud, return_s=0.1) as api:
        context = rented(api, wish(), lease(), print, cloud.machines.answers)
        await context.__aenter__()
        cloud.control.deaf = 10**9
        with pytest.raises(NotReturned, match="gridbench lambda janitor"):
            await context.__aexit__(None, None, None)


async def test_a_key_that_stays_is_only_said(cloud):
    said = []
    answers = cloud.machines.answers
    async with client(cloud, patience_s=0.1) as api, rented(api, wish(), lease(), said.append, answers):
        cloud.control.fault("deleteSSHKey", "server_error")
    assert cloud.account.running() == []
    assert any("SSH key" in words and "gridbench lambda janitor" in words for words in said)


async def test_a_doubtful_launch_is_looked_for_and_returned(cloud):
    async with client(cloud, patience_s=0.1) as api:
        mine, held = lease(), Rented(doubt=True)
        await api.add_ssh_key(mine.name, PUBLIC_KEY)
        cloud.control.fault(answer="hang_up", done=True)
        with pytest.raises(Doubtful):
            await api.launch(request(mine.name, mine.name), held.launched)
        cloud.control.call_faults.clear()
        assert held.launched == set() and len(cloud.account.running()) == 1
        await clear(api, mine, held, print)
    assert nothing_left(cloud)


async def test_a_launch_that_shows_up_after_the_failure_is_returned(cloud):
    cloud.control.listed_after_s, cloud.control.quota = 1.5, 1
    cloud.control.fault("launchInstance", "hang_up", done=True, limit=1)
    async with client(cloud, look_s=0.2) as api:
        with contextlib.suppress(LambdaQuotaExceeded, Mistake, BadBox):  # a slow machine sees the box in time
            await rent(api, wish(boot_within_s=0), lease(), PUBLIC_KEY, "", print, never)
    assert len(cloud.account.launched) == 1
    assert nothing_left(cloud)


async def never(ip):
    raise Mistake


async def test_a_failed_search_for_doubtful_boxes_is_reported(cloud):
    async with client(cloud, patience_s=0.1) as api:
        cloud.control.fault("listInstances", "server_error")
        with pytest.raises(
            NotReturned, match=r"search for other boxes named .* failed.*gridbench lambda janitor"
        ):
            await clear(api, lease(), Rented(doubt=True), print)
        await clear(api, lease(), Rented(), print)  # nothing was launched: no reason to worry


async def test_boxes_and_keys_of_others_are_left_alone(cloud, api, box):
    async with rented(api, wish(), lease(), print, cloud.machines.answers):
        pass
    assert [i.id for i in cloud.account.running()] == [box]
    assert cloud.account.key_names() == ["key-1"]


async def test_a_key_refused_at_the_end_is_reported(cloud, api):
    with pytest.raises(NotReturned, match="inactive") as caught:
        async with rented(api, wish(), lease(), print, cloud.machines.answers):
            cloud.control.account = "global/account-inactive"
    assert not isinstance(caught.value, KeyRefused)
