"""The lease of a rented instance, kept in its tags."""

import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from infra.lambda_cloud.errors import LambdaError
from infra.lambda_cloud.models import LambdaInstance

RUN = "gridbench:run"  # also the mark of our instances
HARDWARE = "gridbench:hardware"
SINCE = "gridbench:since"
UNTIL = "gridbench:until"
USD_PER_HOUR = "gridbench:usd-per-hour"
LONGEST_TAG = 128  # API document, RequestedTagEntry
UNREADABLE_AFTER = timedelta(hours=24)  # a deadline for an instance without a readable one, from its start
BILLED_BY_S = 60  # Lambda bills each minute that has begun
LONG_PAST = datetime(1970, 1, 1, tzinfo=UTC)
STAMP = "%Y%m%dt%H%M%Sz"
NAME = re.compile(r"(?P<lease>gridbench-(?P<until>\d{8}t\d{6}z)-[a-z0-9-]+-[0-9a-f]{8})(-\d)?")


@dataclass(frozen=True, slots=True)
class Lease:
    """A rental for a run.

    Attributes:
        since: the launch; None before it, or if unknown.
        name: of instance and SSH key; unique, with the deadline in it, because a key has no time.
    """

    run: str
    hardware: str
    since: datetime | None
    until: datetime
    usd_per_hour: float
    name: str

    def __post_init__(self) -> None:
        for field, value in (("run", self.run), ("hardware", self.hardware)):
            if not 0 < len(value) <= LONGEST_TAG:
                raise LambdaError(f"{field} is {value[:40]!r}: it needs 1 to {LONGEST_TAG} characters")
        if self.until.tzinfo is None or (self.since is not None and self.since.tzinfo is None):
            raise LambdaError("a lease needs times with a time zone")
        if not (math.isfinite(self.usd_per_hour) and self.usd_per_hour >= 0):
            raise LambdaError(f"usd_per_hour is {self.usd_per_hour}: it needs to be a price")

    @property
    def tags(self) -> dict[str, str]:
        since = {SINCE: _text(self.since)} if self.since else {}
        price = f"{self.usd_per_hour:.4f}"
        marks = {RUN: self.run, HARDWARE: self.hardware, UNTIL: _text(self.until), USD_PER_HOUR: price}
        return marks | since

    def overdue(self, now: datetime) -> bool:
        return now >= self.until

    def cost_usd(self, now: datetime) -> float | None:
        if self.since is None:
            return None
        minutes = math.ceil(max((now - self.since).total_seconds(), 0.0) / BILLED_BY_S)
        return minutes * BILLED_BY_S * self.usd_per_hour / 3600

    def attempt(self, number: int) -> str:
        """Return the name of the n-th instance of this lease, from 1."""
        return self.name if number == 1 else f"{self.name}-{number}"

    def owns(self, instance: LambdaInstance) -> bool:
        names = re.escape(self.name) + r"(-\d)?"
        return bool(self.name) and re.fullmatch(names, instance.name or "") is not None


def new_lease(run: str, hardware: str, until: datetime, usd_per_hour: float = 0.0) -> Lease:
    """Return a lease with a unique name; the launch sets the API's price."""
    stamp = until.astimezone(UTC).strftime(STAMP)
    label = re.sub(r"[^a-z0-9]+", "-", hardware.lower()).strip("-")[:24].strip("-") or "box"
    name = f"gridbench-{stamp}-{label}-{secrets.token_hex(4)}"
    return Lease(run, hardware, None, until, usd_per_hour, name)


def lease_of(instance: LambdaInstance) -> Lease | None:
    """Return the lease in an instance's tags; None for another owner's instance.

    Without tags the deadline comes from the name. An unreadable one counts as a day after the start, because
    the box can still be measuring; without a readable start it is long past, so that the box ends.
    """
    tags = instance.tags
    if RUN not in tags:
        return None if tags else _lease_of_name(instance)
    since = _time(tags, SINCE)
    until = _time(tags, UNTIL) or (since + UNREADABLE_AFTER if since else LONG_PAST)
    return Lease(
        run=tags[RUN][:LONGEST_TAG] or "unknown",
        hardware=tags.get(HARDWARE, "")[:LONGEST_TAG] or "unknown",
        since=since,
        until=until,
        usd_per_hour=_price(tags, instance.instance_type.usd_per_hour),
        name=instance.name or "",
    )


def _lease_of_name(instance: LambdaInstance) -> Lease | None:
    name, usd_per_hour = instance.name or "", instance.instance_type.usd_per_hour
    until = deadline_of(name)
    return Lease("unknown", "unknown", None, until, usd_per_hour, name) if until else None


def lease_name(name: str | None) -> str | None:
    """Return None for an instance or key of another owner."""
    match = NAME.fullmatch(name or "")
    return match["lease"] if match else None


def deadline_of(name: str) -> datetime | None:
    match = NAME.fullmatch(name)
    if not match:
        return None
    try:
        return datetime.strptime(match["until"], STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")


def _time(tags: Mapping[str, str], key: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(tags.get(key, ""))
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        return time if LONG_PAST < time < datetime.max.replace(tzinfo=UTC) - UNREADABLE_AFTER else None
    except (ValueError, OverflowError):
        return None


def _price(tags: Mapping[str, str], otherwise: float) -> float:
    try:
        usd = float(tags.get(USD_PER_HOUR, ""))
    except ValueError:
        return otherwise
    return usd if math.isfinite(usd) and usd >= 0 else otherwise
