import asyncio
import socket

import pytest
from pydantic import ValidationError

from infra.lambda_cloud.errors import (
    BadRequest,
    Doubtful,
    KeyRefused,
    LambdaQuotaExceeded,
    NoCapacity,
    NotFound,
    Unavailable,
)
from tests.emulators.lambda_cloud.quick import A10, PUBLIC_KEY, client, request

LAUNCH_REFUSALS = [
    ({"quota": 0}, {}, LambdaQuotaExceeded, "Quota exceeded"),
    ({"capacity": {}}, {}, NoCapacity, "launching gpu_1x_a10 in us-east-1: Not enough capacity"),
    ({"account": "global/account-inactive"}, {}, KeyRefused, "account is inactive"),
    ({"account": "global/invalid-address"}, {}, KeyRefused, "billing address"),
    ({}, {"instance_type_name": "gpu_1x_a11"}, NotFound, "gpu_1x_a11"),
    ({}, {"region_name": "moon-1"}, NotFound, "moon-1"),
    ({}, {"ssh_key_names": ("unknown",)}, NotFound, "SSH key unknown"),
    ({}, {"user_data": "#cloud-config\n- no mapping"}, BadRequest, "user_data"),
]


@pytest.mark.parametrize(("knobs", "options", "kind", "words"), LAUNCH_REFUSALS)
async def test_a_launch_that_is_refused_says_why_and_is_not_asked_again(
    cloud, keyed_api, knobs, options, kind, words
):
    for name, value in knobs.items():
        setattr(cloud.control, name, value)
    with pytest.raises(kind, match=words):
        await keyed_api.launch(request(**options))
    assert len(cloud.control.asked("launchInstance")) == 1
    assert cloud.account.launched == []


async def test_a_server_that_is_not_there_is_reported(cloud):
    with socket.socket() as silent:  # bound, so that no other process listens there
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api/v1"
        async with client(cloud._replace(url=url), patience_s=0.2) as api:
            with pytest.raises(
                Unavailable, match=r"127\.0\.0\.1 can't be reached \(ConnectError\)"
            ) as caught:
                await api.launch(request())
    assert not caught.value.perhaps_done


@pytest.mark.parametrize("answer", ["server_error", "provider", "hang_up", "empty"])
@pytest.mark.parametrize("done", [False, True])
async def test_a_lost_answer_leaves_exactly_one_instance(cloud, keyed_api, answer, done):
    cloud.control.fault("launchInstance", answer, done=done, limit=1)
    ours = set()
    made = await keyed_api.launch(request(), ours)
    assert [i.id for i in cloud.account.launched] == [made]
    assert ours == {made}
    assert len(cloud.control.asked("launchInstance")) == (1 if done else 2)


async def test_an_instance_that_is_listed_late_is_found_all_the_same(cloud):
    cloud.control.listed_after_s = 0.3
    cloud.control.fault("launchInstance", "hang_up", done=True, limit=1)
    async with client(cloud, look_s=0.2) as api:
        await api.add_ssh_key("key-1", PUBLIC_KEY)
        made = await api.launch(request())
    assert [i.id for i in cloud.account.launched] == [made]


@pytest.mark.parametrize("knobs", [{"quota": 1}, {"capacity": {(A10, "us-east-1"): 1}}])
async def test_a_refusal_after_a_lost_answer_might_be_our_own_doing(cloud, knobs):
    """The instance is listed only after all looks, and took the capacity."""
    cloud.control.listed_after_s = 0.8
    for name, value in knobs.items():
        setattr(cloud.control, name, value)
    cloud.control.fault("launchInstance", "hang_up", done=True, limit=1)
    async with client(cloud, look_s=0.2) as api:
        await api.add_ssh_key("key-1", PUBLIC_KEY)
        made = await api.launch(request())
    assert [i.id for i in cloud.account.launched] == [made]


async def test_an_ended_instance_of_the_same_name_is_not_mistaken_for_the_launched_instance(cloud, keyed_api):
    cloud.control.terminating_s = cloud.control.terminated_s = 30
    first = await keyed_api.launch(request())
    await keyed_api.terminate([first])
    cloud.control.fault("launchInstance", "hang_up", limit=1)
    second = await keyed_api.launch(request())
    assert second != first


async def test_a_launch_with_unknown_outcome_raises_doubtful(cloud):
    async with client(cloud, patience_s=0.2) as api:
        await api.add_ssh_key("key-1", PUBLIC_KEY)
        cloud.control.fault(answer="hang_up", done=True)
        with pytest.raises(Doubtful, match=r"box-1 .*gridbench lambda janitor"):
            await api.launch(request())
    assert len(cloud.control.asked("launchInstance")) == 1


async def test_a_cancelled_launch_tells_its_id(cloud, keyed_api):
    """The request was sent, so the clean-up must know it."""
    ours, launch, loop = set(), cloud.account.launch, asyncio.get_running_loop()

    def cancelled(*arguments):
        loop.call_soon_threadsafe(task.cancel)
        return launch(*arguments)

    cloud.account.launch = cancelled
    task = asyncio.create_task(keyed_api.launch(request(), ours))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [i.id for i in cloud.account.launched] == list(ours)
    assert len(ours) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "x" * 65},
        {"ssh_key_names": ()},
        {"ssh_key_names": ("a", "b")},
        {"tags": {"Gridbench": "x"}},
        {"tags": {"a": "x"}},
        {"tags": {"k" * 56: "x"}},
        {"tags": {"run": "x" * 129}},
        {"user_data": "é" * 500_001},
    ],
)
def test_an_invalid_launch_request_is_never_sent(options):
    with pytest.raises(ValidationError):
        request(**options)
