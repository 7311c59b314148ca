"""A machine's price, stated or computed from facts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tasks.errors import GridbenchError
from tasks.pricing.checks import Quote, doubts, usd_text
from tasks.pricing.facts import FILE, Fact, Kind, Name, Purchase, Usd
from tasks.pricing.names import is_in, is_smaller
from tasks.schema import MOST_GPUS, Strict
from workloads.harness.records.errors import hint


class Price(Strict):
    """A fact with a source, or a stated assumption.

    Attributes:
        spot_usd_per_hour: if known.
        flags: doubts when the file was read.
    """

    usd_per_hour: Usd
    purchase: Literal["on-demand", "spot", "reserved", "assumption"]
    source: Name
    date: date
    region: str | None = None
    spot_usd_per_hour: Usd | None = None
    flags: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Return such as `on-demand, us-east-1, 2026-07-20: AWS price list`."""
        facts = ["stated assumption" if self.purchase == "assumption" else self.purchase, self.region]
        return f"{', '.join(fact for fact in [*facts, self.date.isoformat()] if fact)}: {self.source}"


class PriceOf(Strict):
    """Parts of a price: an instance, or a host with GPUs.

    Attributes:
        region: left out if all have one price.
    """

    provider: Name
    instance: Name | None = None
    host: Name | None = None
    gpu: Name | None = None
    count: Annotated[int, Field(ge=1, le=MOST_GPUS)] = 1
    region: Name | None = None
    purchase: Purchase = "on-demand"

    @model_validator(mode="after")
    def _is_of_one_machine(self) -> "PriceOf":
        if (self.instance is None) == (self.host is None):
            raise ValueError("name either an instance, or a host (with gpu and count if it has GPUs)")
        if self.gpu and not self.host:
            raise ValueError(
                f"gpu {self.gpu!r} is part of the instance's price; leave it out, or name a host"
            )
        if "count" in self.model_fields_set and not self.gpu:
            raise ValueError(f"count is {self.count} but no gpu is named")
        return self

    @property
    def parts(self) -> list[tuple[Kind, str, int]]:
        """Return kind, name and number."""
        if self.instance:
            return [("instance", self.instance, 1)]
        host: list[tuple[Kind, str, int]] = [("host", self.host or "", 1)]
        return host + ([("gpu", self.gpu, self.count)] if self.gpu else [])


def named(raw: Any) -> bool:
    """Return whether a hardware file's price names facts."""
    return isinstance(raw, dict) and bool(raw.keys() & {"provider", "instance", "host"})


def price_of(machine: PriceOf, facts: Sequence[Fact], today: date) -> Price:
    """Return a price dated by its oldest fact.

    Raises:
        GridbenchError: the snapshot lacks a part.
    """
    part_facts = [_find(machine, facts, kind, name) for kind, name, _ in machine.parts]
    counts = [count for *_, count in machine.parts]
    spot = _spot(machine, facts) if machine.purchase == "on-demand" else []
    sources = dict.fromkeys(fact.source for fact in part_facts)
    flags = (flag for fact in (*part_facts, *spot) for flag in fact_doubts(fact, facts, today))
    return Price(
        usd_per_hour=_sum(part_facts, counts),
        purchase=machine.purchase,
        source=f"{_words(part_facts, counts)}; {' and '.join(sources)}",
        date=min(fact.date for fact in part_facts),
        region=machine.region,
        spot_usd_per_hour=_sum(spot, counts) if spot else None,
        flags=tuple(dict.fromkeys(flags)),
    )


def flagged(price: Price, gpus: int, facts: Sequence[Fact], today: date) -> Price:
    """Add all doubts.

    With GPUs it is compared with every host's, as spot with on-demand.
    """
    hosts = tuple((fact.part[1], fact.usd_per_hour) for fact in facts if fact.part[0] == "host" and gpus)
    region = price.region or ""
    quote = Quote(price.usd_per_hour, price.purchase, price.date, region, hosts=hosts, gpus=gpus)
    flags = [*price.flags, *doubts(quote, today)]
    if price.spot_usd_per_hour is not None:
        on_demand = price.usd_per_hour if price.purchase == "on-demand" else None
        spot = replace(quote, usd_per_hour=price.spot_usd_per_hour, purchase="spot", on_demand_usd=on_demand)
        flags += doubts(spot, today)
    return price.model_copy(update={"flags": tuple(dict.fromkeys(flags))})


def fact_doubts(fact: Fact, facts: Sequence[Fact], today: date) -> tuple[str, ...]:
    """Compare a fact with the others of its snapshot."""
    kind, name = fact.part
    same = [other for other in facts if other.provider == fact.provider and other.part[1] == name]
    peers = [other for other in same if other.part[0] == kind]
    on_demand = [other for other in peers if other.purchase == "on-demand" and _covers(other, fact.region)]
    hosts = [other for other in same if kind == "instance" and other.part[0] == "host"]
    elsewhere = [other for other in peers if other.purchase == fact.purchase and other.region != fact.region]
    of_kind = [o for o in facts if (o.provider, o.part[0], o.purchase) == (fact.provider, kind, "on-demand")]
    smaller = [o for o in of_kind if _covers(o, fact.region) and is_smaller(o.part[1], name)]
    quote = Quote(
        fact.usd_per_hour,
        fact.purchase,
        fact.date,
        fact.region or "",
        on_demand_usd=on_demand[0].usd_per_hour if on_demand and fact.purchase == "spot" else None,
        hosts=tuple((name, other.usd_per_hour) for other in hosts if other.purchase == fact.purchase),
        elsewhere=tuple((other.region or "every region", other.usd_per_hour) for other in elsewhere),
        smaller=tuple((o.part[1], o.usd_per_hour) for o in smaller) if fact.purchase == "on-demand" else (),
    )
    return doubts(quote, today)


def _covers(fact: Fact, region: str | None) -> bool:
    return fact.region is None or (region is not None and is_in(region, fact.region))


def _matching(machine: PriceOf, facts: Sequence[Fact], kind: Kind, name: str, purchase: str) -> list[Fact]:
    wanted = (machine.provider, (kind, name), purchase)
    return [fact for fact in facts if (fact.provider, fact.part, fact.purchase) == wanted]


def _find(machine: PriceOf, facts: Sequence[Fact], kind: Kind, name: str) -> Fact:
    anywhere = _matching(machine, facts, kind, name, machine.purchase)
    if match := next((fact for fact in anywhere if _covers(fact, machine.region)), None):
        return match
    region = machine.region or "no region"
    missing = f"{FILE} has no {machine.purchase} price of {machine.provider} {kind} {name!r} in {region}"
    if anywhere:
        raise GridbenchError(f"{missing}, only in {', '.join(fact.region or '' for fact in anywhere)}")
    like = [f.part[1] for f in facts if f.provider == machine.provider and f.part[0] == kind]
    raise GridbenchError(f"{missing}; {hint(name, sorted({*like} - {name}))}")


def _spot(machine: PriceOf, facts: Sequence[Fact]) -> list[Fact]:
    parts = [_matching(machine, facts, kind, name, "spot") for kind, name, _ in machine.parts]
    spot_facts = [next((fact for fact in part if _covers(fact, machine.region)), None) for part in parts]
    return [fact for fact in spot_facts if fact] if all(spot_facts) else []


def _sum(facts: Sequence[Fact], counts: Sequence[int]) -> float:
    total = sum(fact.usd_per_hour * count for fact, count in zip(facts, counts, strict=True))
    return round(total, 6)  # removes the error of binary fractions


def _words(facts: Sequence[Fact], counts: Sequence[int]) -> str:
    if len(facts) == 1:
        return f"{facts[0].provider} {facts[0].part[1]}"
    amounts = [
        f"{f'{count} ' if count > 1 else ''}{fact.part[1]} at {usd_text(fact.usd_per_hour)}"
        for fact, count in zip(facts, counts, strict=True)
    ]
    return f"{facts[0].provider} {' and '.join(amounts)}"
