import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from infra.lambda_cloud.errors import LambdaError
from infra.lambda_cloud.janitor import KEY_GRACE, rentals, sweep
from infra.lambda_cloud.lease import RUN, SINCE, UNTIL, new_lease
from tests.emulators.lambda_cloud import reasons
from tests.emulators.lambda_cloud.account import Refused
from tests.emulators.lambda_cloud.quick import PUBLIC_KEY, client, request
from tests.emulators.lambda_cloud.server import lambda_cloud

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def cloud():
    with lambda_cloud() as cloud:
        cloud.control.capacity = dict.fromkeys(cloud.control.capacity, 9)
        yield cloud


@pytest.fixture
def launch(api):
    async def launch(until, *, run="run-1", since=NOW - HOUR, tags=None):
        base = new_lease(run, "lambda-1x-a10", until, 1.29)
        lease = dataclasses.replace(base, since=since)
        await api.add_ssh_key(lease.name, PUBLIC_KEY)
        shown = lease.tags if tags is None else tags
        return await api.launch(request(lease.name, lease.name, tags=shown)), lease

    return launch


def running(cloud):
    return {instance.id for instance in cloud.account.running()}


async def test_rented_boxes_are_listed_with_their_cost(cloud, api, launch):
    late, first = await launch(NOW - HOUR, run="old", since=NOW - 3 * HOUR)
    fresh, second = await launch(NOW + HOUR, since=NOW - HOUR / 2)
    await launch(NOW - HOUR, tags={"owner": "someone"})
    found = await rentals(api, NOW)
    assert [(r.instance.id, r.lease, r.overdue) for r in found] == [
        (late, first, True),
        (fresh, second, False),
    ]
    assert [rental.cost_usd for rental in found] == pytest.approx([3 * 1.29, 1.29 / 2])


async def test_a_terminated_box_is_not_listed_as_rented(cloud, api, launch):
    made, _ = await launch(NOW + HOUR)
    cloud.account.instances[made].status = "terminated"
    assert await rentals(api, NOW) == []


async def test_the_overdue_are_returned_and_the_rest_is_left(cloud, api, launch):
    late, first = await launch(NOW - 3 * HOUR)
    fresh, second = await launch(NOW + HOUR)
    foreign, third = await launch(NOW + HOUR, tags={"owner": "someone", UNTIL: "2020-01-01T00:00:00+00:00"})
    said = []
    swept = await sweep(api, NOW, said.append)
    assert (swept.returned, swept.removed_keys, swept.problems) == ((late,), (first.name,), ())
    assert running(cloud) == {fresh, foreign}
    assert set(cloud.account.key_names()) == {second.name, third.name}
    assert any("run-1" in words and late in words and "1.29 USD" in words for words in said)
    again = await sweep(api, NOW, said.append)
    assert (again.returned, again.removed_keys, again.problems) == ((), (), ())


async def test_a_broken_deadline_is_a_day_after_the_start(cloud, api, launch):
    kept, _ = await launch(NOW, tags={RUN: "r", SINCE: (NOW - HOUR).isoformat(), UNTIL: "soon"})
    old, _ = await launch(NOW, tags={RUN: "r", SINCE: (NOW - 25 * HOUR).isoformat()})
    lost, _ = await launch(NOW, tags={RUN: "r"})
    swept = await sweep(api, NOW, print)
    assert set(swept.returned) == {old, lost}
    assert running(cloud) == {kept}


async def test_a_box_that_stays_does_not_stop_the_return_of_others(cloud, launch):
    made = [(await launch(NOW - HOUR))[0] for _ in range(3)]
    end, stubborn = cloud.account.end, made[1]
    cloud.account.end = lambda instance: None if instance.id == stubborn else end(instance)
    async with client(cloud, return_s=0.3) as api:
        swept = await sweep(api, NOW, print)
    cloud.account.end = end
    assert set(swept.returned) == {made[0], made[2]}
    assert [stubborn in problem and "gridbench lambda janitor" in problem for problem in swept.problems] == [
        True
    ]


async def test_left_over_keys_go_after_their_deadline(cloud, api, launch):
    _, used = await launch(NOW + HOUR)
    old, fresh = (new_lease("r", "a10", NOW - KEY_GRACE + timedelta(seconds=s)).name for s in (-1, 1))
    used_and_old = new_lease("r", "a10", NOW - 9 * HOUR).name
    for name in (old, fresh, used_and_old, "laptop", "gridbench-laptop"):
        await api.add_ssh_key(name, PUBLIC_KEY)
    await api.launch(request("box", used_and_old))
    swept = await sweep(api, NOW, print)
    assert swept.removed_keys == (old,)
    assert set(cloud.account.key_names()) == {used.name, fresh, used_and_old, "laptop", "gridbench-laptop"}


async def test_a_key_that_stays_keeps_no_other(cloud, api):
    names = [new_lease("r", "a10", NOW - 9 * HOUR).name for _ in range(3)]
    for name in names:
        await api.add_ssh_key(name, PUBLIC_KEY)
    remove, kept = cloud.account.remove_key, list(cloud.account.keys)[1]

    def refuse(key_id):
        if key_id == kept:
            raise Refused(reasons.INVALID, message="This key is needed.")
        return remove(key_id)

    cloud.account.remove_key = refuse
    swept = await sweep(api, NOW, print)
    assert swept.removed_keys == (names[0], names[2])
    assert [names[1] in problem and "is needed" in problem for problem in swept.problems] == [True]
    assert cloud.account.key_names() == [names[1]]


async def test_keys_that_cannot_be_listed_are_a_problem_not_a_failure(cloud, launch):
    late, _ = await launch(NOW - HOUR)
    async with client(cloud, patience_s=0.2) as api:
        cloud.control.fault("listSSHKeys", "server_error")
        swept = await sweep(api, NOW, print)
    assert swept.returned == (late,)
    assert [problem.startswith("leftover SSH keys") for problem in swept.problems] == [True]


async def test_a_sweep_continues_after_a_broken_pipe(cloud, api, launch):
    late, _ = await launch(NOW - HOUR)

    def say(words):
        raise BrokenPipeError(words)

    assert (await sweep(api, NOW, say)).returned == (late,)


async def test_an_account_that_cannot_be_looked_at_is_reported(cloud, api):
    cloud.control.account = "global/account-inactive"
    with pytest.raises(LambdaError, match="inactive"):
        await sweep(api, NOW, print)
