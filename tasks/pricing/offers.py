"""Offers with GPUs, `deployments/offers.csv`."""

import csv
from collections.abc import Iterable, Sequence
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tasks.errors import GridbenchError
from tasks.pricing.checks import Quote, doubts, usd_text
from tasks.pricing.facts import Usd, rewrite
from tasks.schema import MOST_GPUS, Strict, validated

FILE = "offers.csv"
# Providers whose price lists are in euros, which neither gpuhunt nor the SkyPilot catalogue converts.
IN_EUROS = ("seeweb",)
Text = Annotated[
    str, StringConstraints(pattern=r"^[^\p{C}]{1,160}$")
]  # without line breaks and control characters
Gib = Annotated[float, Field(gt=0, le=1e6)]


class MarketOffer(Strict):
    """A machine with GPUs for rent.

    Attributes:
        instance: a marketplace's is the number of one host.
        region: the cheapest; None if the provider names none.
        gpu: gpuhunt's name, such as `A100`.
        gpu_memory_gib: of each.
        cpus: virtual, if known.
        date: the earliest possible if unknown.
    """

    provider: Text
    instance: Text
    region: Text | None = None
    purchase: Literal["on-demand", "spot"]
    usd_per_hour: Usd
    gpus: Annotated[int, Field(ge=1, le=MOST_GPUS)]
    gpu: Text
    gpu_memory_gib: Gib | None = None
    cpus: Annotated[int, Field(ge=1, le=100_000)] | None = None
    memory_gib: Gib | None = None
    source: Text
    date: date

    @property
    def order(self) -> tuple[object, ...]:
        return (self.provider, self.gpu, self.gpu_memory_gib or 0, self.gpus, self.instance, self.purchase)


def load_offers(folder: Path) -> tuple[MarketOffer, ...]:
    """Return none without a file.

    Raises:
        GridbenchError: unreadable, or a mistake.
    """
    path = folder / FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise GridbenchError(f"{path} can't be read ({error})") from None
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, restkey="more columns than the head")
    return tuple(
        validated(MarketOffer, {key: value for key, value in row.items() if value}, f"{FILE}, offer {number}")
        for number, row in enumerate(rows, 1)
    )


def write_offers(folder: Path, offers: Iterable[MarketOffer]) -> Path:
    """Replace the file atomically, except for its head comment.

    Raises:
        GridbenchError: unwritable; the old one is unchanged.
    """
    text = StringIO()
    writer = csv.DictWriter(text, [*MarketOffer.model_fields], lineterminator="\n")
    writer.writeheader()
    for offer in sorted(offers, key=lambda offer: offer.order):
        values = offer.model_dump()
        numbers = {key: f"{value:.10g}" for key, value in values.items() if isinstance(value, float)}
        writer.writerow(values | numbers)
    return rewrite(folder / FILE, text.getvalue().splitlines())


def offer_doubts(offer: MarketOffer, offers: Sequence[MarketOffer], today: date) -> tuple[str, ...]:
    """Return doubts, also by the same machine's on-demand price."""
    where = (offer.provider, offer.instance, offer.region, offer.gpus)
    on_demand = [
        other.usd_per_hour
        for other in offers
        if other.purchase == "on-demand"
        and (other.provider, other.instance, other.region, other.gpus) == where
    ]
    quote = Quote(
        offer.usd_per_hour,
        offer.purchase,
        offer.date,
        offer.region or "",
        on_demand_usd=on_demand[0] if on_demand and offer.purchase == "spot" else None,
        gpus=offer.gpus,
    )
    euros = (
        f"{offer.provider} asks {usd_text(offer.usd_per_hour)} EUR/h, which no source converts: its USD are more",
    )
    return (*doubts(quote, today), *(euros if offer.provider in IN_EUROS else ()))
