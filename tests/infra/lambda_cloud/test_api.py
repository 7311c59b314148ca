import asyncio
import json
import re

import pytest

from infra.lambda_cloud import api as apis
from infra.lambda_cloud.errors import (
    BadRequest,
    KeyRefused,
    LambdaError,
    NotFound,
    Unavailable,
    pause_s,
    refusal,
)
from infra.lambda_cloud.settings import Turnstile
from tests.emulators.lambda_cloud.quick import A10, PUBLIC_KEY, client, request


async def test_offers_have_price_and_regions(cloud, keyed_api):
    cloud.control.refusing.add(("gpu_1x_gh200", "us-west-1"))
    offers = await keyed_api.offers()
    assert offers[A10].instance_type.usd_per_hour == 1.29
    assert {name: offer.regions for name, offer in offers.items() if offer.regions} == {
        A10: ("us-east-1",),
        "gpu_1x_gh200": ("us-west-1",),
    }


async def test_an_instance_is_launched_looked_at_and_ended(cloud, keyed_api):
    made = await keyed_api.launch(
        request(tags={"gridbench:run": "r"}, user_data="#cloud-config\nruncmd: []\n")
    )
    found = await keyed_api.instance(made)
    assert (found.id, found.name, found.tags, found.region.name) == (
        made,
        "box-1",
        {"gridbench:run": "r"},
        "us-east-1",
    )
    assert [instance.id for instance in await keyed_api.instances()] == [made]
    assert [i.status for i in await keyed_api.terminate([made])] == ["terminating"]
    assert cloud.account.running() == []


async def test_keys_come_and_go(cloud, keyed_api):
    assert [(key.name, key.public_key) for key in await keyed_api.ssh_keys()] == [("key-1", PUBLIC_KEY)]
    await keyed_api.remove_ssh_key((await keyed_api.ssh_keys())[0].id)
    await keyed_api.remove_ssh_key("unknown")
    assert cloud.account.key_names() == []


async def test_a_wrong_key_is_reported_with_where_to_get_another(cloud):
    async with apis.LambdaApi("wrong", cloud.url) as api:
        with pytest.raises(KeyRefused, match=r"LAMBDA_API_KEY.*cloud\.lambda\.ai/api-keys"):
            await api.instances()
    assert len(cloud.control.calls) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("global/account-inactive", KeyRefused),
        ("global/invalid-address", KeyRefused),
        ("global/of-tomorrow", BadRequest),
    ],
)
def test_a_403_means_a_wrong_key_only_with_the_matching_code(code, kind):
    error = refusal("asking", 403, json.dumps({"error": {"code": code, "message": "No."}}))
    assert type(error) is kind


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("error code: 1010", r"HTTP 403: error code: 1010"),
        ("<html><head><title>Attention Required!</title></head></html>", "Attention Required!"),
        ('{"error": {}}', r"HTTP 403: "),
    ],
)
def test_a_403_of_a_proxy_before_the_api_is_retried(body, words):
    error = refusal("asking", 403, body)
    assert isinstance(error, Unavailable) and not error.perhaps_done
    assert re.search(f"what stands before Lambda's API refuses the request .*{words}", str(error))


async def test_a_launch_that_is_blocked_on_its_way_is_repeated_and_done_once(cloud, keyed_api):
    cloud.control.fault("launchInstance", "challenged", limit=2)
    made = await keyed_api.launch(request())
    assert [i.id for i in cloud.account.launched] == [made]


async def test_the_client_says_who_it_is(cloud, keyed_api):
    await keyed_api.instances()
    assert {call.agent.partition("/")[0] for call in cloud.control.calls} == {"gridbench"}


async def test_an_unknown_instance_raises_not_found(keyed_api):
    with pytest.raises(NotFound):
        await keyed_api.instance("unknown")
    with pytest.raises(NotFound):
        await keyed_api.terminate(["../instances"])


@pytest.mark.parametrize("answer", ["throttled", "server_error", "provider", "hang_up", "empty"])
@pytest.mark.parametrize("done", [False, True])
async def test_idempotent_calls_are_repeated(cloud, keyed_api, answer, done):
    cloud.control.terminating_s = 600  # it is still there however late it is asked again
    made = await keyed_api.launch(request())
    cloud.control.fault(answer=answer, done=done, limit=3)
    assert [instance.id for instance in await keyed_api.instances()] == [made]
    cloud.control.fault("terminateInstance", answer, done=done, limit=2)
    await keyed_api.terminate([made])
    assert cloud.account.running() == []


@pytest.mark.parametrize("answer", ["server_error", "hang_up", "empty"])
async def test_a_key_whose_answer_was_lost_is_added_once(cloud, keyed_api, answer):
    cloud.control.fault("addSSHKey", answer, done=True, limit=1)
    added = await keyed_api.add_ssh_key("key-2", PUBLIC_KEY)
    assert added.name == "key-2"
    assert cloud.account.key_names() == ["key-1", "key-2"]


async def test_a_key_whose_removal_was_not_answered_is_removed(cloud, keyed_api):
    cloud.control.fault("deleteSSHKey", "hang_up", done=True, limit=1)
    await keyed_api.remove_ssh_key((await keyed_api.ssh_keys())[0].id)
    assert cloud.account.key_names() == []


@pytest.mark.parametrize("retry_after", [None, "0", "0.05", "Sun, 20 Sep 2026 10:00:00 GMT", "later"])
async def test_a_storm_of_429_is_outlived(cloud, keyed_api, retry_after):
    cloud.control.fault(retry_after=retry_after, limit=6)
    made = await keyed_api.launch(request())
    assert [i.id for i in cloud.account.launched] == [made]
    assert [call.status for call in cloud.control.asked("launchInstance")] == [429] * 6 + [200]
    assert cloud.control.asked("listInstances") == []  # a 429 did surely nothing


@pytest.mark.parametrize(
    ("text", "wanted"), [("7", 7), ("-3", 0), ("nan", 0), ("soon", 0), ("", 0), ("1e9", 600)]
)
def test_a_pause_is_read_from_the_header(text, wanted):
    assert pause_s(text) == wanted
    assert refusal("asking", 429, "", text).after_s == wanted


def test_a_pause_can_be_a_date():
    assert pause_s("Sun, 20 Sep 2015 10:00:00 GMT") == 0
    assert pause_s("Sun, 20 Sep 2099 10:00:00 GMT") == 600


async def test_a_pause_longer_than_the_patience_is_not_slept_through(cloud):
    cloud.control.fault(retry_after="500")
    async with client(cloud, patience_s=100) as api:
        with pytest.raises(Unavailable, match="too often"):
            await api.instances()
    assert len(cloud.control.calls) == 1


@pytest.mark.parametrize("answer", ["throttled", "server_error", "hang_up"])
async def test_patience_ends_with_a_sentence(cloud, answer):
    cloud.control.fault(answer=answer)
    async with client(cloud, patience_s=0.2) as api:
        with pytest.raises(Unavailable, match="listing instances: "):
            await api.instances()


async def test_a_rate_limit_is_kept_to_in_the_end(cloud):
    cloud.control.call_least_s = cloud.control.launch_least_s = 0.3
    async with client(cloud) as api:
        await api.add_ssh_key("key-1", PUBLIC_KEY)
        made = await asyncio.gather(*(api.launch(request(f"box-{number}")) for number in range(3)))
    assert sorted(made) == sorted(i.id for i in cloud.account.launched)
    assert 429 in {call.status for call in cloud.control.calls}


async def test_a_turnstile_lets_one_through_every_so_often():
    now, slept = [100.0], []

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    turnstile = Turnstile(12.0, lambda: now[0], sleep)
    await asyncio.gather(*(turnstile.wait() for _ in range(3)))
    assert slept == [12.0, 12.0]
    now[0] += 5
    await turnstile.wait()
    assert slept == [12.0, 12.0, 7.0]
    now[0] += 60
    await turnstile.wait()
    assert len(slept) == 3


async def test_launches_are_paced_apart_from_other_calls(cloud):
    api = client(cloud, call_s=1.5, launch_s=12.5)
    assert (api._calls._every_s, api._launches._every_s) == (1.5, 12.5)
    await api.__aexit__(None, None, None)


async def test_an_answer_of_another_shape_is_reported_not_retried(cloud, keyed_api):
    cloud.control.prices[A10] = "cheap"
    with pytest.raises(LambdaError, match=r"not answer as documented: gpu_1x_a10\.instance_type\.price"):
        await keyed_api.offers()
    assert len(cloud.control.asked("listInstanceTypes")) == 1


async def test_a_status_that_is_new_is_read(cloud, keyed_api):
    made = await keyed_api.launch(request())
    cloud.account.instances[made].status = "levitating"
    assert (await keyed_api.instance(made)).status == "levitating"
