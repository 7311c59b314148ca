"""Check prices by the rules of the price snapshot."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from statistics import median

from tasks.pricing.checks import MOST_USD, Quote, impossibilities
from tasks.pricing.names import is_in
from tasks.published.shapes import AWS_NAME, GCP_NAME
from tasks.published.table import ColumnKind, Compared, Printed, PublishedTable, TableFlaw, TableRow

RULE = "price that can't be"
_RENTED = re.compile(r"hour|/\s?h(?:r)?\b|on.demand|spot|preempt")
MOST_ALIKE = 50  # prices of one machine that are compared
_SEVERAL = re.compile(r"(?<![\w.])(\d{1,4})\s?[x×]\s?(?=[a-z])")
# regions and zones as AWS and Google name them
_PLACES = re.compile(r"\b(?:[a-z]{2}(?:-gov)?-[a-z]+-\d[a-z]?|[a-z]+-[a-z]+\d(?:-[a-f])?)\b")


@dataclass(frozen=True, slots=True)
class PricedRow:
    """A price of a row.

    Attributes:
        several: machines or GPUs, such as 8 of `8x p4d.24xlarge`.
        sure: by the hour; else it can be of a card to buy.
    """

    row: TableRow
    machine: str
    gpus: float
    value: Printed
    purchase: str
    several: float = 1.0
    sure: bool = True


def mispriced(table: PublishedTable, known: Mapping[str, float]) -> Iterator[TableFlaw | Compared]:
    """Report values that cannot be prices, or not of such a machine.

    `known`: on demand by instance.
    """
    rented = [index for index in table.of(ColumnKind.PRICE) if not _is_bought(table, index)]
    prices = [price for index in rented for price in _priced(table, index)]
    beside: dict[str, list[PricedRow]] = defaultdict(list)
    for price in prices:
        beside[price.machine or f"row {id(price.row)}"].append(price)
    for price in prices:
        others = beside[price.machine or f"row {id(price.row)}"][:MOST_ALIKE]
        if reasons := _reasons(price, others, known):
            text = f"{price.row.name}: {'; '.join(reasons)}"
            yield TableFlaw(RULE, (price.row.name,), text, doubt=not price.sure)
    yield from _cheaper_with_more(prices)
    yield Compared("prices", len(prices))


def bought(table: PublishedTable) -> Iterator[str]:
    """Yield columns with prices of cards to buy."""
    for index in table.of(ColumnKind.PRICE):
        if _is_bought(table, index):
            name = table.columns[index].header
            yield f"{name!r} is taken as the price to buy a card: most are above {MOST_USD:g}, and none is by the hour"


def _is_bought(table: PublishedTable, index: int) -> bool:
    """Return whether most prices exceed hourly ones, without instance, hour or spot."""
    values = [value.value for row in table.rows if (value := row.cells[index])]
    texts = [table.columns[index].header.lower(), *(row.text for row in table.rows)]
    rented = any(_RENTED.search(text) or _machine(text) for text in texts)
    return bool(values) and median(values) > MOST_USD and not rented


def _reasons(price: PricedRow, prices: Sequence[PricedRow], known: Mapping[str, float]) -> tuple[str, ...]:
    """List why a price can't be right, for all or for each of several machines."""
    named = [o for o in prices if price.machine and o.machine == price.machine and o.row is not price.row]
    alike = [o for o in named if o.purchase == price.purchase]
    elsewhere = tuple((o.row.name, o.value.value / by) for o in alike for by in sorted({1.0, o.several}))
    spot = price.purchase == "spot"
    demanded = [o for o in prices if spot and o.purchase == "on-demand"]
    own = [
        o
        for o in demanded
        if o.row is price.row or (o.machine == price.machine != "" and _is_there(price, o))
    ]
    quote = Quote(
        price.value.value, price.purchase, date.min,
        on_demand_usd=own[0].value.value if own else None, elsewhere=elsewhere,
        gpus=int(max(price.gpus, price.several)), snapshot_usd=known.get(price.machine),
    )  # fmt: skip
    reasons = impossibilities(quote)
    if price.several == 1 or not reasons:
        return reasons
    each = replace(quote, usd_per_hour=price.value.value / price.several, on_demand_usd=None)
    return reasons if impossibilities(each) else ()


def _priced(table: PublishedTable, index: int) -> list[PricedRow]:
    column = table.columns[index]
    purchase = "spot" if "spot" in column.header.lower() else "on-demand"
    devices = table.of(ColumnKind.DEVICES)
    counted = [i for i in devices if re.search(r"gpu|accelerator", table.columns[i].header.lower())]
    made = []
    for row in table.rows:
        value = row.cells[index]
        count = next((v.value for i in counted if (v := row.cells[i])), 0.0)
        terms = "spot" if re.search(r"\bspot\b|preempt", row.text) else purchase
        several = math.prod(max(float(number), 1.0) for number in _SEVERAL.findall(row.text))
        if value:
            sure = column.sure or bool(_machine(row.text) or _RENTED.search(row.text))
            made.append(PricedRow(row, _machine(row.text), count, value, terms, several, sure))
    return made


def _is_there(price: PricedRow, other: PricedRow) -> bool:
    places, regions = _places(price.row.text), _places(other.row.text)
    return len(places) == len(regions) == 1 and is_in(places[0], regions[0])


@lru_cache(maxsize=1024)
def _places(text: str) -> list[str]:
    return _PLACES.findall(text)


def _machine(text: str) -> str:
    names = [f"{a}.{b}" for a, b, *_ in AWS_NAME.findall(text)]
    names += [f"{a}-{b}{c}" for a, b, c in GCP_NAME.findall(text)]
    return names[0] if len(set(names)) == 1 else ""


def _cheaper_with_more(prices: Sequence[PricedRow]) -> Iterator[TableFlaw]:
    families: dict[str, list[PricedRow]] = defaultdict(list)
    for price in prices:
        family = price.machine.partition(".")[0]
        if family and price.gpus and price.purchase == "on-demand":
            families[family].append(price)
    for members in families.values():
        for more in members[:MOST_ALIKE]:
            fewer = [
                m
                for m in members[:MOST_ALIKE]
                if 2 * m.gpus <= more.gpus and m.value.low > more.value.high > 0
            ]
            if fewer:
                less, names = fewer[0], (more.row.name, fewer[0].row.name)
                text = f"{names[0]} with {more.gpus:g} GPUs costs {more.value.text}, "
                text += f"{names[1]} with {less.gpus:g} costs {less.value.text}"
                yield TableFlaw(RULE, names, text)
