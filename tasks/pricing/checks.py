"""Rules that flag doubtful prices. None drops a price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from math import isclose, isfinite

OLD_DAYS = 90
PLACEHOLDERS = (700.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)  # seen in public price catalogues
JUMP = 2.0  # a price change above this factor is reported
MOST_USD = 200.0  # an hour for one GPU, or for a machine without: above any provider's
LEAST_USD = 0.001  # an hour for a machine: the smallest ones cost four times that
APART = 5.0  # most factor between two regions; real ones differ by less than two


@dataclass(frozen=True, slots=True)
class Quote:
    """A price, with those that it is compared with.

    Attributes:
        purchase: `on-demand`, `spot`, `reserved` or `assumption`.
        date: read or assumed.
        region: empty for everywhere.
        on_demand_usd: for a spot price, in the same region.
        hosts: without GPUs, for a machine with GPUs.
        elsewhere: other regions, same purchase.
        snapshot_usd: on-demand price on file.
        smaller: machines of the family and region, for an on-demand price.
    """

    usd_per_hour: float
    purchase: str
    date: date
    region: str = ""
    on_demand_usd: float | None = None
    hosts: tuple[tuple[str, float], ...] = ()
    elsewhere: tuple[tuple[str, float], ...] = ()
    gpus: int = 1
    snapshot_usd: float | None = None
    smaller: tuple[tuple[str, float], ...] = ()


def doubts(quote: Quote, today: date) -> tuple[str, ...]:
    """Return a clause for each doubt."""
    if impossible := no_price(quote.usd_per_hour):
        return (impossible,)
    return tuple(filter(None, (rule(quote, today) for rule in RULES)))


def no_price(usd_per_hour: float) -> str:
    """Reject NaN and infinite or negative values."""
    if isfinite(usd_per_hour) and usd_per_hour >= 0:
        return ""
    return f"{usd_per_hour:g} USD/h is not a price: it must be finite and not negative"


def placeholder(quote: Quote, today: date) -> str:
    """Flag zero, all nines, and round values of price catalogues."""
    usd = quote.usd_per_hour
    if usd == 0:
        return "0 USD/h stands for no price, so costs are not compared"
    digits = usd_text(usd).replace(".", "")
    if usd >= 99 and set(digits) == {"9"}:
        return f"{usd_text(usd)} USD/h is all nines, which stands for an unknown price"
    if usd in PLACEHOLDERS:
        return f"{usd_text(usd)} USD/h is a value that price catalogues hold for an unknown price"
    return ""


def out_of_range(quote: Quote, today: date) -> str:
    """Flag prices beyond any machine's: a placeholder is not always round."""
    most = MOST_USD * max(quote.gpus, 1)
    if placeholder(quote, today):
        return ""
    if quote.usd_per_hour > most:
        gpus = f"{quote.gpus} GPUs" if quote.gpus > 1 else "one GPU or a machine without any"
        return f"{usd_text(quote.usd_per_hour)} USD/h is more than {most:g} for {gpus}"
    if 0 < quote.usd_per_hour < LEAST_USD:
        return f"{quote.usd_per_hour:g} USD/h is less than any machine costs"
    return ""


def unlike_elsewhere(quote: Quote, today: date) -> str:
    """Flag a price far from every other region's, or the one on file."""
    usd, others = quote.usd_per_hour, [price for _, price in quote.elsewhere if price > 0]
    near = [price for price in others if 1 / APART <= usd / price <= APART]
    if usd > 0 and others and not near and (len(others) > 1 or usd > others[0]):
        region, price = quote.elsewhere[0]
        here = quote.region or "here"
        return f"{usd_text(usd)} USD/h {here} is {usd / price:.2g} times the {usd_text(price)} of {region}"
    on_file = quote.snapshot_usd
    low = on_file / (APART * (4 if quote.purchase == "spot" else 1)) if on_file else 0.0
    if on_file and usd > 0 and not low <= usd <= APART * on_file:
        times = f"{usd / on_file:.2g} times the on-demand price on file, {usd_text(on_file)}"
        return f"{usd_text(usd)} USD/h is {times}"
    return ""


def spot_above_on_demand(quote: Quote, today: date) -> str:
    if quote.on_demand_usd is None or quote.usd_per_hour <= quote.on_demand_usd:
        return ""
    on_demand = usd_text(quote.on_demand_usd)
    return f"the spot price, {usd_text(quote.usd_per_hour)} USD/h, is above the on-demand price, {on_demand}"


def host_alone(quote: Quote, today: date) -> str:
    """Flag a host's price: GCP bills its GPU separately, at four times as much."""
    amount = f"{usd_text(quote.usd_per_hour)} USD/h{' as spot capacity' if quote.purchase == 'spot' else ''}"
    for name, usd in quote.hosts:
        if usd > 0 and isclose(quote.usd_per_hour, usd, rel_tol=1e-4):
            return f"{amount} is the price of the host {name} without its GPU"
    return ""


def below_a_smaller_one(quote: Quote, today: date) -> str:
    """Flag a machine cheaper than a smaller one of its family."""
    known = [(usd, name) for name, usd in quote.smaller if usd not in PLACEHOLDERS]
    usd, name = max(known, default=(0.0, ""))
    if not 0 < quote.usd_per_hour < usd:
        return ""
    here = f"{usd_text(quote.usd_per_hour)} USD/h"
    return f"{here} is less than the {usd_text(usd)} of {name}, which is smaller"


def half_of_another_region(quote: Quote, today: date) -> str:
    """Flag exactly half of another region's price: regions differ by some percent."""
    for region, usd in quote.elsewhere:
        if quote.usd_per_hour > 0 and isclose(2 * quote.usd_per_hour, usd, rel_tol=1e-6):
            here = f"{usd_text(quote.usd_per_hour)} USD/h in {quote.region or 'every other region'}"
            return f"{here} is exactly half of the price in {region}"
    return ""


def old(quote: Quote, today: date) -> str:
    """Flag an old price: a snapshot of a year ago was wrong by half."""
    days = (today - quote.date).days
    if quote.purchase == "assumption" or days <= OLD_DAYS:
        return ""
    return f"the price of {quote.date} is {days} days old, more than {OLD_DAYS}"


def from_the_future(quote: Quote, today: date) -> str:
    """Flag a date after today, which would hide the price's age."""
    return f"the price is dated {quote.date}, after {today}" if quote.date > today else ""


Rule = Callable[[Quote, date], str]
RULES: tuple[Rule, ...] = (
    placeholder,
    out_of_range,
    unlike_elsewhere,
    spot_above_on_demand,
    host_alone,
    below_a_smaller_one,
    half_of_another_region,
    old,
    from_the_future,
)


def impossibilities(quote: Quote) -> tuple[str, ...]:
    """Return why a price can't be right, whatever its date."""
    if impossible := no_price(quote.usd_per_hour):
        return (impossible,)
    rules = (placeholder, out_of_range, unlike_elsewhere, spot_above_on_demand)
    return tuple(filter(None, (rule(quote, quote.date) for rule in rules)))


def jump(before: float, after: float) -> str:
    """Describe a change by more than `JUMP`; else empty."""
    small, large = sorted((before, after))
    if before == after or (small > 0 and large / small <= JUMP):
        return ""
    factor = f", {after / before:.2g}x" if before > 0 else ""
    return f"from {usd_text(before)} to {usd_text(after)} USD/h{factor}"


def source_text(note: str, flags: Sequence[str]) -> str:
    """Return the source with doubts."""
    return f"{note} (doubtful: {'; '.join(flags)})" if flags else note


def usd_text(usd: float) -> str:
    """Write all digits, never rounded to cents."""
    return f"{usd:.6f}".rstrip("0").rstrip(".")
