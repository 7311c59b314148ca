import asyncio

import psutil
import pytest
from prefect.blocks.system import Secret

from flows.rental import janitor
from infra.lambda_cloud.api import LambdaApi
from infra.lambda_cloud.rent import cloud_config, key_pair
from infra.lambda_cloud.settings import Turnstile
from infra.local.stack import LocalStack
from infra.workers.base.retry import call_until_answered
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import call, connect
from tasks.dispatch.rental_labels import RentalStatus
from tests.emulators.fixtures import environment
from tests.emulators.lambda_cloud.control import Control, Fate
from tests.emulators.lambda_cloud.quick import A10, PACE, client, lease, nothing_left, request
from tests.emulators.lambda_cloud.server import lambda_cloud
from tests.emulators.lambda_cloud.ssh_boxes import SshBoxes
from tests.emulators.prefect_api import with_tables
from tests.infra.lambda_cloud.rentals import ROOT, Rentals

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def machines():
    return SshBoxes()


@pytest.fixture(scope="module")
def module_cloud(machines):
    with lambda_cloud(Control(boot_s=0.2), machines) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def stack(module_cloud, tmp_path_factory):
    settings = {
        "LAMBDA_API_KEY": module_cloud.control.key,
        "LAMBDA_API_URL": module_cloud.url,
        "LAMBDA_RENTAL_POLL_S": "0.3",
        "LAMBDA_RENTAL_LOOK_S": "0.3",
        "LAMBDA_RENTAL_ALONE_S": "4",
        "LAMBDA_RENTAL_API_FACTOR": "0.02",
        "PYTHONPATH": str(ROOT),
    }
    with environment(**settings), LocalStack(with_tables(tmp_path_factory.mktemp("stack"))) as stack:
        yield Rentals(stack, module_cloud)


@pytest.fixture
async def rentals(stack):
    if not stack.deployments:
        await stack.deploy()
    control = stack.cloud.control
    control.capacity = {(A10, "us-east-1"): 4}
    control.fates.clear()
    control.call_faults.clear()
    yield stack
    assert nothing_left(stack.cloud)


async def test_a_box_is_rented_held_released_and_gone(rentals, machines):
    async with rentals.bench():
        run_id = await rentals.start()
        rental = await rentals.answering(run_id)
        [instance] = rentals.cloud.account.running()
        assert (rental.instance, rental.type, rental.region) == (instance.id, A10, "us-east-1")
        assert rental.usd_per_hour == 1.29 and rental.name == instance.request["name"]
        assert (rental.until - rental.since).total_seconds() == 1000
        block = await rentals.block(rental.name)
        async with await connect(Host(**rental.host), lambda name: _text(block.data["value"])) as connection:
            done = await call(connection, "id -un; docker ps -q; id -u")
            assert done.stdout.decode().split() == ["ubuntu", "0"], done.stderr
        await rentals.release(run_id)
        state = await rentals.end(run_id)
    assert (state.type.value, state.message) == ("COMPLETED", "given back")
    rental = await rentals.all_gone(run_id)
    assert rental.since < rental.answered < rental.returned and rental.cost_usd() > 0
    assert not machines.boxes


async def _text(value):
    return value


async def test_a_box_that_does_not_boot_is_paid_for_and_another_taken(rentals):
    rentals.cloud.control.fates.append(Fate("unhealthy", 0.1))
    async with rentals.bench(), rentals.holding() as (run_id, task):
        rental = await rentals.answering(run_id)
        first, second = rentals.cloud.account.launched[-2:]
        assert (first.id, second.id) != (rental.instance, first.id) and rental.instance == second.id
        assert rental.earlier_s >= 60  # a minute, or more if this machine is slow
        assert rental.earlier_usd == pytest.approx(1.29 / 3600 * rental.earlier_s)
        await rentals.release(run_id)
        assert (await task).is_completed()
        assert (await rentals.all_gone(run_id)).cost_usd() > rental.earlier_usd


async def test_a_cancelled_rental_returns_its_box(rentals):
    async with rentals.bench():
        run_id = await rentals.start()
        await rentals.answering(run_id)
        await rentals.cancel(run_id)
        assert (await rentals.end(run_id)).is_cancelled()
    await rentals.all_gone(run_id)


async def test_a_rental_cancelled_while_the_box_boots_returns_its_box(rentals):
    rentals.cloud.control.fates.append(Fate("never_active"))
    async with rentals.bench(), rentals.holding() as (run_id, task):
        await rentals.until(run_id, lambda rental: rental.instance)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await rentals.all_gone(run_id)


async def test_a_killed_rental_is_returned_by_its_worker(rentals):
    async with rentals.bench():
        run_id = await rentals.start()
        await rentals.answering(run_id)
        psutil.Process(int((await rentals.run(run_id)).infrastructure_pid)).kill()
        assert (await rentals.end(run_id)).is_crashed()
    await rentals.all_gone(run_id)


async def test_a_rental_whose_bench_is_gone_returns_its_box(rentals):
    async with rentals.holding() as (run_id, task):
        state = await task
        assert state.is_completed() and "run run-1 is no longer measured" in state.message
        await rentals.all_gone(run_id)


async def test_a_box_that_is_taken_away_is_reported(rentals):
    async with rentals.bench(), rentals.holding() as (run_id, task):
        rental = await rentals.answering(run_id)
        [instance] = rentals.cloud.account.running()
        instance.status = "preempted"
        state = await task
        assert (state.type.value, state.name) == ("CRASHED", "Reclaimed")
        assert f"gpu_1x_a10 in us-east-1 ({rental.instance}) is preempted" in state.message
        await rentals.all_gone(run_id)


async def test_a_box_is_held_no_longer_than_was_asked(rentals):
    async with rentals.bench(), rentals.holding(most_s=0.1) as (run_id, task):
        state = await task
        assert (state.type.value, state.name) == ("FAILED", "Due")
        await rentals.all_gone(run_id)


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"capacity_s": 0.5, "regions": ("us-west-1",)}, "NoCapacity", "no gpu_1x_a10 in us-west-1"),
        ({"most_usd_per_hour": 1}, "Refused", "price is above the limit"),
    ],
)
async def test_a_rental_that_cannot_be_made_fails_with_a_sentence(rentals, changes, name, words):
    async with rentals.bench(), rentals.holding(**changes) as (run_id, task):
        state = await task
        assert (state.type.value, state.name) == ("FAILED", name)
        assert words in state.message and "\n" not in state.message
        await rentals.all_gone(run_id)


async def test_a_rental_without_an_api_key_is_refused(rentals):
    with environment(LAMBDA_API_KEY=""):
        async with rentals.bench(), rentals.holding() as (_, task):
            state = await task
    assert (state.type.value, state.name) == ("FAILED", "Refused")
    assert "set LAMBDA_API_KEY" in state.message


async def test_a_box_that_could_not_be_returned_is_reported(rentals):
    async with rentals.bench(), rentals.holding() as (run_id, task):
        rental = await rentals.answering(run_id)
        rentals.cloud.control.account = "global/account-inactive"
        try:
            await rentals.release(run_id)
            state = await task
        finally:
            rentals.cloud.control.account = "active"
        assert (state.type.value, state.name) == ("FAILED", "NotReturned")
        assert f"instance {rental.instance} could not be returned" in state.message
        assert "gridbench lambda janitor" in state.message
        assert RentalStatus.of((await rentals.run(run_id)).labels).returned is None
    async with client(rentals.cloud) as api:
        await api.terminate([rental.instance])
        for key in await api.ssh_keys():
            await api.remove_ssh_key(key.id)


async def test_boxes_that_an_earlier_holder_left_are_returned_and_no_others(rentals):
    async with (
        rentals.bench(),
        client(rentals.cloud) as api,
        rentals.holding() as (held, first),
    ):
        theirs = await rentals.answering(held)
        left, other = await _left(api, lease()), await _left(api, lease(run="run-2"))
        async with rentals.holding() as (run_id, second):
            rental = await rentals.answering(run_id)
            running = {instance.id for instance in rentals.cloud.account.running()}
            assert running == {theirs.instance, rental.instance, other} and left not in running
            for each, task in ((held, first), (run_id, second)):
                await rentals.release(each)
                assert (await task).is_completed()
        await api.terminate([other])
        await api.remove_ssh_key(next(key.id for key in await api.ssh_keys()))
        await rentals.all_gone(run_id)


async def _left(api: LambdaApi, mine):
    await api.add_ssh_key(mine.name, key_pair(mine.name).public)
    user_data = cloud_config(key_pair("host"))
    return await api.launch(request(mine.name, mine.name, tags=mine.tags, user_data=user_data))


async def test_the_janitor_removes_boxes_past_their_deadline(rentals):
    late = lease(until_s=-7200)
    async with client(rentals.cloud) as api:
        await _left(api, late)
    with rentals.settings():
        async with rentals.client() as theirs:
            for name in (late.name, "somebody-elses"):
                await call_until_answered(Secret(value="key").asave, name, overwrite=True, client=theirs)
        done = await janitor(return_state=True)
        again = await janitor(return_state=True)
        with environment(LAMBDA_API_KEY=""):
            keyless = await janitor(return_state=True)
    assert done.message == "gave back 1 boxes and removed 2 keys"
    assert again.is_completed() and again.message == "no machine of Gridbench is overdue at Lambda Cloud"
    assert keyless.is_failed() and "set LAMBDA_API_KEY" in keyless.message
    assert await rentals.block(late.name) is None and await rentals.block("somebody-elses")


async def test_processes_take_turns_at_one_api(tmp_path):
    now, slept = [100.0], []

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    ours, theirs = (Turnstile(10.0, lambda: now[0], sleep, tmp_path / "calls") for _ in range(2))
    for turnstile in (ours, theirs, ours):
        await turnstile.wait()
    assert now[0] == 120 and slept == [10, 10]
    now[0] = 5.0  # a reboot: the file's deadline is still to come
    await Turnstile(10.0, lambda: now[0], sleep, tmp_path / "calls").wait()
    assert now[0] == 5 and PACE.call_s == 0
