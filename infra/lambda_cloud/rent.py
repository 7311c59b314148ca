"""Rental of a box within a deadline and a price."""

import asyncio
import dataclasses
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from infra.lambda_cloud.api import LambdaApi
from infra.lambda_cloud.boot import Answers, BadBox, Boot, BoxRefusesUs, booted, greets, lets_in
from infra.lambda_cloud.choose import LaunchOption, Wish, check, launch_options
from infra.lambda_cloud.errors import NoCapacity, NotReturned, Unavailable
from infra.lambda_cloud.give_back import Rented, Say, clear, give_back, tell
from infra.lambda_cloud.lease import Lease, lease_of
from infra.lambda_cloud.models import LambdaInstance, LaunchRequest

USER = "ubuntu"  # Lambda Stack's login
SAME_AGAIN = "another box would do the same, so none is rented: docs/lambda.md says how to look into it"


@dataclass(frozen=True, slots=True)
class RentedBox:
    """A rented machine that answers; `host_key` is a line `ssh-ed25519 …`."""

    ip: str
    user: str
    host_key: str
    private_key: str = field(repr=False)
    instance: LambdaInstance
    lease: Lease


@dataclass(frozen=True, slots=True)
class Launch:
    """One instance of a search, `returned` if it did not boot."""

    instance: str
    option: LaunchOption
    since: datetime
    returned: datetime | None = None


Note = Callable[[Launch], None]


def unnoted(launch: Launch) -> None: ...


@dataclass(slots=True)
class BoxSearch:
    """One search for a box, and its launches so far."""

    api: LambdaApi
    wish: Wish
    lease: Lease
    user_data: str = field(repr=False)
    say: Say
    answers: Answers
    held: Rented
    note: Note
    # type and region → boxes that booted badly
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)


async def rent(
    api: LambdaApi,
    wish: Wish,
    lease: Lease,
    public_key: str,
    user_data: str,
    say: Say,
    answers: Answers = greets,
    note: Note = unnoted,
    held: Rented | None = None,
) -> LambdaInstance:
    """Rent a box that answers; its tags hold the lease with the true start and price.

    Args:
        note: receives every launch, and again when its instance failed to boot and is given back.
        held: is kept up to date, so that the caller sees leftovers after an error.

    Raises:
        BadRequest, TooDear: nothing was launched.
        NoCapacity: the deadline passed without a box.
        QuotaExceeded, KeyRefused: at once.
        BadBox: too many in a row booted badly.
        NotReturned: as a note of the error above, or instead of it: an instance might still run.
    """
    held = Rented() if held is None else held
    search = BoxSearch(api, wish, lease, user_data, say, answers, held, note)
    check(wish, await api.offers())
    async with _cleared_on_failure(api, lease, held, say):
        await api.add_ssh_key(lease.name, public_key)
        return await _box_that_answers(search)


@asynccontextmanager
async def rented(
    api: LambdaApi,
    wish: Wish,
    lease: Lease,
    say: Say,
    answers: Answers | None = None,
    note: Note = unnoted,
    held: Rented | None = None,
) -> AsyncIterator[RentedBox]:
    """Provide a box with fresh keys while the context lasts; then give both back.

    `NotReturned` if its end was not observed; if the context failed, as a note of that error. `answers` is by
    default a login with these keys.
    """
    login, host = key_pair(lease.name), key_pair(lease.name)
    answers = answers or lets_in(USER, login.private, host.public)
    held = Rented() if held is None else held
    instance = await rent(api, wish, lease, login.public, cloud_config(host), say, answers, note, held)
    held.doubt = False  # all the account's instances have been seen
    async with _cleared_on_failure(api, lease, held, say):
        yield RentedBox(
            ip=instance.ip or "",
            user=USER,
            host_key=host.public,
            private_key=login.private,
            instance=instance,
            lease=lease_of(instance) or lease,
        )
    await clear(api, lease, held, say)


@asynccontextmanager
async def _cleared_on_failure(api: LambdaApi, lease: Lease, held: Rented, say: Say) -> AsyncIterator[None]:
    try:
        yield
    except BaseException as error:
        try:
            await clear(api, lease, held, say)
        except (NotReturned, asyncio.CancelledError) as stopped:
            left = stopped if isinstance(stopped, NotReturned) else stopped.__cause__
            if left:
                tell(say, str(left))
                error.add_note(str(left))
            if isinstance(stopped, asyncio.CancelledError):
                raise
        raise


async def _box_that_answers(search: BoxSearch) -> LambdaInstance:
    api, wish = search.api, search.wish
    for number in range(1, wish.boxes + 1):
        launch = await _launched_somewhere(search, search.lease.attempt(number))
        instance_id, option = launch.instance, launch.option
        search.note(launch)
        search.say(f"{option.instance_type} in {option.region} boots ({instance_id})")
        left_s = (search.lease.until - datetime.now(UTC)).total_seconds()
        within_s = max(min(wish.boot_within_s, left_s), 0)

        async def strays(listed: list[LambdaInstance], keep: str = instance_id) -> None:
            await _return_strays(search, listed, keep)

        try:
            boot = Boot(search.answers, search.say, time.monotonic() + within_s)
            return await booted(api, instance_id, boot, strays)
        except BadBox as error:
            search.failed[option.instance_type, option.region] += 1
            words = f"{option.instance_type} in {option.region} ({instance_id}) is given back: {error}"
            search.say(words)
            await give_back(api, instance_id)
            search.held.returned.add(instance_id)
            search.note(dataclasses.replace(launch, returned=datetime.now(UTC)))
            if isinstance(error, BoxRefusesUs):
                raise BoxRefusesUs(f"{words}; {SAME_AGAIN}") from None
            last = BadBox(words)
    raise BadBox(f"{wish.boxes} boxes in a row failed to boot; the last: {last}")


async def _return_strays(search: BoxSearch, listed: list[LambdaInstance], keep: str) -> None:
    done = search.held.returned
    for instance in listed:
        if search.lease.owns(instance) and instance.id not in {keep, *done} and not instance.ended:
            search.say(f"a second instance of this lease is given back ({instance.id})")
            search.held.launched.add(instance.id)
            await give_back(search.api, instance.id)
            done.add(instance.id)


async def _launched_somewhere(search: BoxSearch, name: str) -> Launch:
    pace, wish = search.api.pace, search.wish
    until = min(wish.until, search.lease.until)
    waits = _waits(pace.wait_s, pace.longest_wait_s)
    last = "nothing was tried"
    while datetime.now(UTC) < until:
        try:
            options = launch_options(wish, await search.api.offers(), search.failed)
            last = last if options else "no region reports capacity"
        except Unavailable as error:
            options, last = [], str(error)
        for option in options:
            try:
                return await _launch(search, option, name, until)
            except (NoCapacity, Unavailable) as error:
                last = str(error)
                search.say(f"no {option.instance_type} in {option.region}: {error}")
            if datetime.now(UTC) >= until:
                break
        left = (until - datetime.now(UTC)).total_seconds()
        await anyio.sleep(max(min(next(waits), left), 0))
    where = " or ".join(wish.regions) if wish.regions else "any region"
    raise NoCapacity(
        f"no {' or '.join(wish.instance_types)} in {where} until {until:%Y-%m-%d %H:%M:%S %Z} ({last}): "
        "allow more types or regions, or wait longer"
    )


async def _launch(search: BoxSearch, option: LaunchOption, name: str, until: datetime) -> Launch:
    now = datetime.now(UTC)
    lease = dataclasses.replace(search.lease, since=now, usd_per_hour=option.usd_per_hour)
    request = LaunchRequest(
        region_name=option.region,
        instance_type_name=option.instance_type,
        ssh_key_names=(lease.name,),
        name=name,
        tags=lease.tags,
        user_data=search.user_data,
    )
    search.held.doubt = True
    made = await search.api.launch(request, search.held.launched, (until - now).total_seconds())
    return Launch(made, option, now)


def _waits(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield growing waits, shortened at random so that searches don't ask at once."""
    wait_s = first_s
    while True:
        yield wait_s * random.uniform(0.7, 1.0)
        wait_s = min(wait_s * 2, longest_s)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key pair in OpenSSH's formats."""

    public: str
    private: str = field(repr=False)


def key_pair(comment: str) -> KeyPair:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return KeyPair(f"{public} {comment}", private)


def cloud_config(host: KeyPair) -> str:
    """Return user data for cloud-init that gives a box only this host key."""
    keys = {"ed25519_private": host.private, "ed25519_public": host.public}
    return "#cloud-config\n" + yaml.safe_dump({"ssh_deletekeys": True, "ssh_keys": keys}, width=1000)
