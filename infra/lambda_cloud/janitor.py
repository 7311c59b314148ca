"""Present rentals, and the return of overdue ones."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.errors import KeyRefused, LambdaError
from infra.lambda_cloud.give_back import Say, give_back, tell
from infra.lambda_cloud.lease import Lease, deadline_of, lease_of
from infra.lambda_cloud.models import LambdaInstance
from infra.lambda_cloud.settings import ApiPace

HASTE = ApiPace(patience_s=20.0, return_s=120.0)  # for a sweep before another command
KEY_GRACE = timedelta(hours=1)  # a key outlives its deadline by this, in case clocks differ


@dataclass(frozen=True, slots=True)
class RunningRental:
    """Our running instance; its cost is unknown without its start."""

    instance: LambdaInstance
    lease: Lease
    cost_usd: float | None
    overdue: bool


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep: instance ids, names of SSH keys, and a sentence for each failure."""

    returned: tuple[str, ...] = ()
    removed_keys: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


async def rentals(api: LambdaApi, now: datetime) -> list[RunningRental]:
    running = [
        RunningRental(instance, lease, lease.cost_usd(now), lease.overdue(now))
        for instance in await api.instances()
        if not instance.ended and (lease := lease_of(instance))
    ]
    return sorted(running, key=lambda rental: rental.lease.until)


async def sweep(api: LambdaApi, now: datetime, say: Say) -> Swept:
    """End all overdue instances at once, and delete our unused SSH keys.

    `LambdaError` if the instances can't be listed; other failures are in `Swept.problems`.
    """
    overdue = [rental for rental in await rentals(api, now) if rental.overdue]
    returned, problems = await end(api, overdue, say)
    removed: list[str] = []
    try:
        problems += await _remove_keys(api, now, removed, say)
    except LambdaError as error:
        problems.append(f"leftover SSH keys could not be listed: {error}")
    return Swept(tuple(returned), tuple(removed), tuple(problems))


async def end(api: LambdaApi, running: Sequence[RunningRental], say: Say) -> tuple[list[str], list[str]]:
    ended = await asyncio.gather(*(_returned(api, rental, say) for rental in running))
    returned = [r.instance.id for r, problem in zip(running, ended, strict=True) if not problem]
    return returned, [problem for problem in ended if problem]


async def _returned(api: LambdaApi, rental: RunningRental, say: Say) -> str:
    what = f"{rental.lease.hardware} of run {rental.lease.run} ({rental.instance.id})"
    try:
        await give_back(api, rental.instance.id)
    except LambdaError as error:
        tell(say, f"{what}: {error}")
        return str(error)
    cost = "" if rental.cost_usd is None else f"; it has cost {rental.cost_usd:.2f} USD"
    tell(say, f"{what}, due {rental.lease.until:%Y-%m-%d %H:%M} UTC, is given back{cost}")
    return ""


async def _remove_keys(api: LambdaApi, now: datetime, removed: list[str], say: Say) -> list[str]:
    used = {name for i in await api.instances() if not i.ended for name in i.ssh_key_names}
    failures = []
    for key in await api.ssh_keys():
        deadline = deadline_of(key.name)
        if deadline is None or key.name in used or now < deadline + KEY_GRACE:
            continue
        try:
            await api.remove_ssh_key(key.id)
        except LambdaError as error:
            failures.append(f"the SSH key {key.name} could not be removed: {error}")
        else:
            removed.append(key.name)
            tell(say, f"the SSH key {key.name} was left over and has been removed")
    return failures


async def sweep_overdue(say: Say, pace: ApiPace | None = None) -> None:
    """Give back every renter's overdue instances, since a dead one can't; report failures."""
    key, url = api_key(), api_url()
    try:
        async with LambdaApi(key, url, pace or HASTE) as api:
            swept = await sweep(api, datetime.now(UTC), say)
    except KeyRefused:
        raise
    except LambdaError as error:
        say(f"could not check for overdue machines at Lambda Cloud: {error}")
        return
    for problem in swept.problems:
        say(f"error: {problem}")
