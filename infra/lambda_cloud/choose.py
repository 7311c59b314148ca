"""Choice of the instance types and regions to try."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from infra.hint import hint
from infra.lambda_cloud.errors import BadRequest, TooDear
from infra.lambda_cloud.models import REGIONS, LambdaOffer

MOST_BOXES = 9  # a name has one digit for the number


@dataclass(frozen=True, slots=True)
class Wish:
    """The acceptable kinds of box, and the limits.

    Attributes:
        instance_types, regions: in the order of preference; None for any region.
        until: the last moment of a launch; an instance that boots then continues.
        boot_within_s: from the launch until SSH answers; slower boxes are given back.
        boxes: how many are tried one after another if they boot badly, at most 9.
    """

    instance_types: tuple[str, ...]
    until: datetime
    boot_within_s: float
    most_usd_per_hour: float
    regions: tuple[str, ...] | None = None
    boxes: int = 3

    def __post_init__(self) -> None:
        if self.until.tzinfo is None:
            raise BadRequest(f"until is {self.until}: it needs a time zone")
        if not 1 <= self.boxes <= MOST_BOXES:
            raise BadRequest(f"boxes is {self.boxes}: it needs to be 1 to {MOST_BOXES}")


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """An instance type in a region, with its price."""

    instance_type: str
    region: str
    usd_per_hour: float


def check(wish: Wish, offers: Mapping[str, LambdaOffer]) -> None:
    """Raise `BadRequest` for an unknown type or region, `TooDear` if all types are too expensive."""
    for name in wish.instance_types or ("",):
        if name not in offers:
            raise BadRequest(f"instance type {name!r} is unknown to Lambda: {hint(name, list(offers))}")
    regions = {*REGIONS, *(region for offer in offers.values() for region in offer.regions)}
    for name in wish.regions or ():
        if name not in regions:
            raise BadRequest(f"region {name!r} is unknown to Lambda: {hint(name, sorted(regions))}")
    affordable(wish, offers)


def affordable(wish: Wish, offers: Mapping[str, LambdaOffer]) -> list[str]:
    """Return the types within the price limit, by preference; raise `TooDear` without one."""
    prices = {n: offers[n].instance_type.usd_per_hour for n in wish.instance_types if n in offers}
    fitting = [name for name, usd in prices.items() if usd <= wish.most_usd_per_hour]
    if prices and not fitting:
        listed = ", ".join(f"{name} {usd:.2f}" for name, usd in prices.items())
        raise TooDear(
            f"Lambda's price is above the limit: {listed} USD an hour, "
            f"the limit is {wish.most_usd_per_hour:.2f}; raise it if today's price is right"
        )
    return fitting


def launch_options(
    wish: Wish, offers: Mapping[str, LambdaOffer], failed: Counter[tuple[str, str]]
) -> list[LaunchOption]:
    options: list[LaunchOption] = []
    for name in affordable(wish, offers):
        offer = offers[name]
        regions = [r for r in wish.regions or offer.regions if r in offer.regions]
        usd = offer.instance_type.usd_per_hour
        ordered = sorted(regions, key=lambda region: failed[name, region])
        options += [LaunchOption(name, region, usd) for region in ordered]
    return options
