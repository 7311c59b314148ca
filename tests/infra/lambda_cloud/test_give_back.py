import asyncio

import anyio
import pytest

from infra.lambda_cloud.errors import LambdaError, NotReturned
from infra.lambda_cloud.give_back import give_back
from infra.lambda_cloud.settings import unbroken
from tests.emulators.lambda_cloud.control import Fate
from tests.emulators.lambda_cloud.quick import PUBLIC_KEY, client, request, until


@pytest.fixture
async def box(api):
    await api.add_ssh_key("key-1", PUBLIC_KEY)
    return await api.launch(request())


async def test_an_instance_is_returned(cloud, api, box):
    await give_back(api, box)
    assert cloud.account.running() == []
    await give_back(api, box)  # a second call is not an error, even after it is gone
    await until(lambda: not cloud.account.instances)
    await give_back(api, box)


@pytest.mark.parametrize(
    "answer", ["throttled", "server_error", "provider", "hang_up", "blocked", "challenged", "nowhere"]
)
@pytest.mark.parametrize("done", [False, True])
async def test_a_box_is_returned_despite_failed_calls(cloud, api, box, answer, done):
    cloud.control.fault("terminateInstance", answer, done=done, limit=4)
    cloud.control.fault("getInstance", answer, limit=2)
    await give_back(api, box)
    assert cloud.account.running() == []


@pytest.mark.parametrize("answer", ["blocked", "nowhere"])
async def test_a_refusal_before_the_api_proves_neither_a_bad_key_nor_a_box_that_is_gone(cloud, box, answer):
    fault = cloud.control.fault(answer=answer)
    async with client(cloud, patience_s=0.05) as api:
        task = asyncio.create_task(give_back(api, box))
        await until(lambda: fault.hits > 10 or task.done())
        assert not task.done(), "the box still bills"
        cloud.control.call_faults.clear()
        await task
    assert cloud.account.running() == []


async def test_a_return_without_effect_is_requested_again(cloud, api, box):
    cloud.control.deaf = 3
    await give_back(api, box)
    assert cloud.account.running() == []
    assert len(cloud.control.asked("terminateInstance")) == 4


async def test_a_return_outlasts_an_outage_longer_than_the_calls_patience(cloud, box):
    fault = cloud.control.fault(answer="server_error")
    async with client(cloud, patience_s=0.05) as api:
        task = asyncio.create_task(give_back(api, box))
        await until(lambda: fault.hits > 10)
        cloud.control.call_faults.clear()
        await task
    assert cloud.account.running() == []


async def test_a_fresh_instance_that_is_not_listed_yet_is_returned(cloud):
    cloud.control.listed_after_s = 0.3
    async with client(cloud, look_s=0.2) as api:
        await api.add_ssh_key("key-1", PUBLIC_KEY)
        await give_back(api, await api.launch(request()))
    assert cloud.account.running() == []


async def test_a_preempted_instance_is_over(cloud, api):
    cloud.control.fates.append(Fate("preempted"))
    await api.add_ssh_key("key-1", PUBLIC_KEY)
    box = await api.launch(request())
    await until(lambda: cloud.account.instances[box].status == "preempted")
    cloud.control.deaf = 10**9  # it stays preempted, whatever it is asked
    await give_back(api, box)
    assert len(cloud.control.asked("terminateInstance")) == 1


async def test_a_box_that_does_not_end_is_reported_with_advice(cloud, box):
    cloud.control.deaf = 10**9
    async with client(cloud, return_s=0.1) as api:
        with pytest.raises(
            NotReturned, match=f"{box} could not be returned.*still .*`gridbench lambda janitor`"
        ):
            await give_back(api, box)


async def test_a_refused_key_is_not_waited_for(cloud, api, box):
    cloud.control.account = "global/account-inactive"
    with pytest.raises(NotReturned, match="inactive"):
        await give_back(api, box)
    assert len(cloud.control.asked("terminateInstance")) == 1


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancellation_waits_for_the_return(cloud, api, box, times):
    cloud.control.deaf = 10**9
    task = asyncio.create_task(give_back(api, box))
    for _ in range(times):
        seen = len(cloud.control.calls)
        await until(lambda seen=seen: len(cloud.control.calls) > seen)
        task.cancel()
    cloud.control.deaf = 0
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cloud.account.running() == []


async def test_a_cancel_scope_waits_for_the_return_too(cloud, api, box):
    with anyio.CancelScope() as scope:
        scope.cancel()
        await give_back(api, box)
    assert cloud.account.running() == []


async def test_unbroken_work_says_why_it_failed_after_a_cancellation():
    begun, end = asyncio.Event(), asyncio.Event()

    async def fail():
        begun.set()
        await end.wait()
        raise LambdaError("no")

    task = asyncio.create_task(unbroken(fail()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    end.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, LambdaError)
    with pytest.raises(LambdaError):
        await unbroken(fail())
