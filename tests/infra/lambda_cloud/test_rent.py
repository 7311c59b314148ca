import asyncio
import re

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from infra.lambda_cloud.choose import Wish
from infra.lambda_cloud.errors import BadRequest, KeyRefused, LambdaQuotaExceeded, NoCapacity, TooDear
from infra.lambda_cloud.lease import lease_of
from infra.lambda_cloud.rent import rent, rented
from tests.emulators.lambda_cloud.quick import (
    A10,
    PUBLIC_KEY,
    client,
    gone,
    lease,
    nothing_left,
    places,
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


async def test_a_box_is_rented_used_and_returned(cloud, api, said):
    mine = lease()
    async with rented(api, wish(), mine, said.append, cloud.machines.answers) as box:
        [instance] = cloud.account.running()
        assert (box.instance.id, box.ip, box.user) == (instance.id, instance.ip, "ubuntu")
        assert await cloud.machines.answers(box.ip)
        assert cloud.account.key_names() == [mine.name] == instance.request["ssh_key_names"]
        assert (box.lease.run, box.lease.usd_per_hour) == ("run-1", 1.29)
        assert box.lease.since is not None and box.lease.name == mine.name == instance.request["name"]
    assert nothing_left(cloud)
    assert len(cloud.account.launched) == 1
    await gone(cloud)
    assert said and said[0].startswith("gpu_1x_a10 in us-east-1 boots")


async def test_the_box_has_the_host_key_that_is_pinned(cloud, api, said):
    async with rented(api, wish(), lease(), said.append, cloud.machines.answers) as box:
        [instance] = cloud.account.running()
        text = instance.request["user_data"]
        assert text.startswith("#cloud-config\n")
        config = yaml.safe_load(text)
        assert config["ssh_deletekeys"] is True
        private = load_ssh_private_key(config["ssh_keys"]["ed25519_private"].encode(), None)
        pinned = load_ssh_public_key(box.host_key.encode())
        assert (
            private.public_key()
            == pinned
            == load_ssh_public_key(config["ssh_keys"]["ed25519_public"].encode())
        )
        login = load_ssh_private_key(box.private_key.encode(), None).public_key()
        assert login == load_ssh_public_key(instance.public_key.encode()) != pinned


async def test_every_rental_has_keys_of_its_own(cloud, api, said):
    boxes = []
    for _ in range(2):
        async with rented(api, wish(), lease(), said.append, cloud.machines.answers) as box:
            boxes.append(box)
    assert boxes[0].host_key != boxes[1].host_key
    assert boxes[0].private_key != boxes[1].private_key


async def test_tags_tell_run_deadline_and_the_apis_price(cloud, take):
    cloud.control.prices[A10] = 145
    instance = await take(wish())
    found = lease_of(instance)
    assert (found.run, found.hardware, found.usd_per_hour) == ("run-1", "lambda-1x-a10", 1.45)
    assert found.until == take.lease.until.replace(microsecond=0)
    assert found.since <= soon(0)


async def test_the_next_region_is_tried_where_one_refuses(cloud, take):
    cloud.control.capacity |= {(A10, WEST): 1}
    cloud.control.refusing |= {(A10, EAST)}
    instance = await take(wish())
    assert instance.region.name == WEST
    assert places(cloud) == [(A10, EAST), (A10, WEST)]


async def test_regions_are_tried_as_wished_and_no_others(cloud, take):
    cloud.control.capacity |= {(A10, WEST): 1, (A10, SOUTH): 1}
    cloud.control.refusing |= {(A10, SOUTH)}
    instance = await take(wish(regions=(SOUTH, WEST)))
    assert instance.region.name == WEST
    assert places(cloud) == [(A10, SOUTH), (A10, WEST)]


async def test_types_are_tried_as_wished(cloud, take):
    cloud.control.capacity |= {(GH200, EAST): 1}
    instance = await take(wish(H100, GH200, A10))
    assert instance.instance_type.name == GH200
    assert places(cloud) == [(GH200, EAST)]  # types without listed capacity are not requested


async def test_capacity_that_comes_later_is_waited_for(cloud, api, take):
    cloud.control.capacity.clear()
    task = asyncio.create_task(take(wish()))
    while len(cloud.control.asked("listInstanceTypes")) < 4:
        await asyncio.sleep(0.01)
    cloud.control.capacity[A10, WEST] = 1
    assert (await task).region.name == WEST
    assert places(cloud) == [(A10, WEST)]


async def test_the_deadline_ends_the_wait(cloud, take):
    cloud.control.refusing |= {(A10, EAST)}
    with pytest.raises(
        NoCapacity, match=r"no gpu_1x_a10 in us-east-1 or us-west-1 until 2.* UTC .*Not enough"
    ):
        await take(wish(until_s=4, regions=(EAST, WEST)))
    assert nothing_left(cloud)
    assert set(places(cloud)) == {(A10, EAST)}


async def test_a_lease_that_is_over_rents_nothing(cloud, api, said):
    with pytest.raises(NoCapacity):
        await rent(api, wish(), lease(until_s=-1), PUBLIC_KEY, "", said.append, cloud.machines.answers)
    assert places(cloud) == []
    assert nothing_left(cloud)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (wish("gpu_1x_a11"), "'gpu_1x_a11' is unknown to Lambda: did you mean gpu_1x_a10?"),
        (wish(A10, "tpu"), "'tpu' is unknown to Lambda: there are gpu_1x_a10, "),
        (wish(regions=("us-east1",)), "region 'us-east1' is unknown to Lambda: did you mean us-east-1?"),
    ],
)
async def test_an_unknown_type_or_region_is_refused_before_anything_is_made(cloud, take, wanted, words):
    with pytest.raises(BadRequest, match=re.escape(words)):
        await take(wanted)
    assert [call.operation for call in cloud.control.calls] == ["listInstanceTypes"]


async def test_a_region_with_nothing_free_is_known_all_the_same(cloud, take):
    with pytest.raises(NoCapacity):
        await take(wish(regions=("asia-south-1",), until_s=0.2))


@pytest.mark.parametrize("options", [{"boxes": 0}, {"boxes": 10}, {"until": soon(9).replace(tzinfo=None)}])
def test_a_wish_that_makes_no_sense_is_refused(options):
    with pytest.raises(BadRequest, match=next(iter(options))):
        Wish((A10,), **{"until": soon(9), "boot_within_s": 1, "most_usd_per_hour": 1} | options)


async def test_a_price_above_the_most_is_refused(cloud, take):
    cloud.control.prices |= {A10: 199}
    with pytest.raises(TooDear, match=r"gpu_1x_a10 1\.99 USD an hour, the limit is 1\.29"):
        await take(wish(most_usd_per_hour=1.29))
    assert places(cloud) == []
    assert nothing_left(cloud)


async def test_only_the_type_that_costs_too_much_is_left_out(cloud, take):
    cloud.control.capacity |= {(H100, EAST): 1}
    assert (await take(wish(H100, A10, most_usd_per_hour=2))).instance_type.name == A10


async def test_a_price_that_rises_while_waiting_is_seen(cloud, take):
    cloud.control.capacity.clear()
    task = asyncio.create_task(take(wish(most_usd_per_hour=1.29)))
    while len(cloud.control.asked("listInstanceTypes")) < 3:
        await asyncio.sleep(0.01)
    cloud.control.prices[A10] = 130
    with pytest.raises(TooDear):
        await task


async def test_a_quota_is_reported_at_once(cloud, take):
    cloud.control.quota = 0
    with pytest.raises(LambdaQuotaExceeded, match="contact Support"):
        await take(wish())
    assert len(places(cloud)) == 1
    assert nothing_left(cloud)


async def test_a_refused_account_is_reported_at_once(cloud, take):
    cloud.control.account = "global/invalid-address"
    with pytest.raises(KeyRefused, match="billing address"):
        await take(wish())
    assert len(places(cloud)) == 1
    assert nothing_left(cloud)


async def test_an_api_that_is_out_of_order_for_a_while_is_waited_for(cloud, said):
    cloud.control.fault(answer="server_error", limit=12)
    async with client(cloud) as api:
        await rent(api, wish(), lease(), PUBLIC_KEY, "", said.append, cloud.machines.answers)
    assert len(cloud.account.launched) == 1


@pytest.mark.parametrize("done", [False, True])
async def test_a_lost_launch_makes_one_box(cloud, take, done):
    cloud.control.fault("launchInstance", "hang_up", done=done, limit=1)
    instance = await take(wish())
    assert [i.id for i in cloud.account.launched] == [instance.id]


async def test_a_second_instance_that_shows_up_is_returned(cloud, take):
    """A late launch is listed when the second boots."""
    launch = cloud.account.launch

    def twice(request, public_key):
        launch(request, public_key)
        return launch(request, public_key)

    cloud.account.launch = twice
    instance = await take(wish())
    assert [i.id for i in cloud.account.running()] == [instance.id]
    assert len(cloud.account.launched) == 2


async def test_a_wrong_key_rents_nothing(cloud, said):
    async with client(cloud) as api:
        api._client.headers["Authorization"] = "Bearer other"
        with pytest.raises(KeyRefused):
            await rent(api, wish(), lease(), PUBLIC_KEY, "", said.append)
    assert {call.status for call in cloud.control.calls} == {401}


async def test_a_launch_is_not_tried_past_the_deadline(cloud, take):
    cloud.control.fault("launchInstance", "hang_up")
    with pytest.raises(NoCapacity, match="can't be reached"):
        await take(wish(until_s=4))
    assert nothing_left(cloud)
