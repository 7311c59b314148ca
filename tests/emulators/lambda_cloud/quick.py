"""A client of the Lambda emulator without waiting, and its wishes."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.lambda_cloud.api import LambdaApi
from infra.lambda_cloud.boot import Answers
from infra.lambda_cloud.choose import Wish
from infra.lambda_cloud.lease import Lease, new_lease
from infra.lambda_cloud.models import LambdaInstance, LaunchRequest
from infra.lambda_cloud.rent import rent
from infra.lambda_cloud.settings import ApiPace

from .server import Standin

# Patience is long, because the machine can be slow; a test of its end makes it short.
PACE = ApiPace(
    call_s=0,
    launch_s=0,
    retry_s=0.01,
    longest_retry_s=0.05,
    patience_s=60,
    look_s=0.01,
    wait_s=0.01,
    longest_wait_s=0.03,
    return_s=60,
    timeout_s=20,
)
A10 = "gpu_1x_a10"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICN+lJwsONkwrdsSnQsu1ydUkIuIg5oOC+Eslvmtt60T noname"


def client(cloud: Standin, **pace: float) -> LambdaApi:
    return LambdaApi(cloud.control.key, cloud.url, dataclasses.replace(PACE, **pace))


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def wish(*types: str, until_s: float = 60, **options: Any) -> Wish:
    given = {"boot_within_s": 30, "most_usd_per_hour": 50} | options
    return Wish(types or (A10,), soon(until_s), **given)


def lease(until_s: float = 3600, run: str = "run-1") -> Lease:
    return new_lease(run, "lambda-1x-a10", soon(until_s))


def request(name: str = "box-1", key: str = "key-1", **options: Any) -> LaunchRequest:
    given = {"region_name": "us-east-1", "instance_type_name": A10, "ssh_key_names": (key,), "name": name}
    return LaunchRequest(**given | options)


async def gone(cloud: Standin) -> None:
    while cloud.account.instances:
        await asyncio.sleep(0.01)


def taker(cloud: Standin, api: LambdaApi, said: list[str]) -> Callable[..., Awaitable[LambdaInstance]]:
    """Return a function that rents by a wish and logs into a list; `take.lease` is the lease."""

    async def take(wanted: Wish, answers: Answers | None = None) -> LambdaInstance:
        take.lease = lease()  # type: ignore[attr-defined]
        answers = answers or cloud.machines.answers
        user_data = "#cloud-config\na: 1\n"
        return await rent(api, wanted, take.lease, PUBLIC_KEY, user_data, said.append, answers)  # type: ignore[attr-defined]

    return take


def places(cloud: Standin) -> list[tuple[str, str]]:
    asked = [call.body for call in cloud.control.asked("launchInstance")]
    return [(body["instance_type_name"], body["region_name"]) for body in asked]


def nothing_left(cloud: Standin) -> bool:
    return (cloud.account.running(), cloud.account.key_names()) == ([], [])


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)
