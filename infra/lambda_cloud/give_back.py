"""Return of rented instances until their end is observed."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from infra.lambda_cloud.api import LOOKS, LambdaApi
from infra.lambda_cloud.errors import (
    INSTANCES_PAGE,
    BadRequest,
    KeyRefused,
    LambdaError,
    NotFound,
    NotReturned,
)
from infra.lambda_cloud.lease import Lease
from infra.lambda_cloud.models import ENDED
from infra.lambda_cloud.settings import unbroken

# A preempted instance has ended already; it gets a termination all the same before this counts.
OVER = ENDED | {"preempted"}
Say = Callable[[str], None]


@dataclass(slots=True)
class Rented:
    """The launches for a lease so far.

    Attributes:
        launched, returned: ids of instances.
        doubt: a launch might have made an instance that has not been seen.
        left: a sentence for each thing that might still run after all attempts.
    """

    launched: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    doubt: bool = False
    left: list[str] = field(default_factory=list)


def tell(say: Say, words: str) -> None:
    """Report it; a failing listener must not prevent a return."""
    with suppress(Exception):
        say(words)


async def give_back(api: LambdaApi, instance_id: str) -> None:
    """End an instance and wait for its observed end, also when cancelled.

    `NotReturned` after `api.pace.return_s` seconds.
    """
    await unbroken(_give_back(api, instance_id))


async def _give_back(api: LambdaApi, instance_id: str) -> None:
    stop = time.monotonic() + api.pace.return_s
    absent = 0
    while True:
        try:
            status, why = await _end(api, instance_id)
            absent = absent + 1 if status is None else 0
            if status in OVER or absent >= LOOKS:  # a new instance can be unknown for a moment
                return
            if status:
                why = why or f"Lambda says that it is still {status}"
        except LambdaError as error:
            why = str(error)
            if isinstance(error, KeyRefused):
                stop = 0
        if time.monotonic() >= stop:
            raise NotReturned(
                f"instance {instance_id} could not be returned and can still cost money ({why}): "
                f"run `gridbench lambda janitor` until it is gone, or end it at {INSTANCES_PAGE}"
            )
        await anyio.sleep(api.pace.look_s)


async def _end(api: LambdaApi, instance_id: str) -> tuple[str | None, str]:
    """Return the status (None: no such instance), and the reason of a refusal."""
    why = ""
    try:
        for instance in await api.terminate([instance_id]):
            if instance.id == instance_id and instance.status in OVER:
                return instance.status, ""
    except (NotFound, BadRequest) as error:  # it might have ended already
        why = str(error)
    try:
        return (await api.instance(instance_id)).status, why
    except NotFound:
        return None, why


async def clear(api: LambdaApi, lease: Lease, rented: Rented, say: Say) -> None:
    """Give back all launches of a lease and its SSH key, also when cancelled.

    `NotReturned` has a sentence for each instance that might still run.
    """
    await unbroken(_clear(api, lease, rented, say))


async def _clear(api: LambdaApi, lease: Lease, rented: Rented, say: Say) -> None:
    failures = await _return_all(api, rented.launched - rented.returned, rented)
    strays: set[str] = set()
    try:
        for look in range(LOOKS if rented.doubt else 1):
            if look:
                await anyio.sleep(api.pace.look_s)
            mine = {i.id for i in await api.instances() if lease.owns(i) and not i.ended}
            strays |= mine - rented.launched - rented.returned
    except LambdaError as error:
        words = f"the search for other boxes named {lease.name} failed ({error})"
        tell(say, words)
        if rented.doubt:
            failures.append(f"{words}: run `gridbench lambda janitor`, or look at {INSTANCES_PAGE}")
    failures += await _return_all(api, strays, rented)
    try:
        for key in await api.ssh_keys():
            if key.name == lease.name:
                await api.remove_ssh_key(key.id)
    except LambdaError as error:  # costs nothing: the janitor removes it later
        tell(say, f"the SSH key {lease.name} could not be removed ({error}); `gridbench lambda janitor` will")
    rented.left = failures
    if failures:
        raise NotReturned("; ".join(failures))


async def _return_all(api: LambdaApi, instance_ids: set[str], rented: Rented) -> list[str]:
    failures = []
    for instance_id in sorted(instance_ids):
        try:
            await give_back(api, instance_id)
            rented.returned.add(instance_id)
        except LambdaError as error:
            failures.append(str(error))
    return failures
