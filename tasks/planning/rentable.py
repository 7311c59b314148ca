"""Machines with GPUs: hardware files, and offers that no pool reaches."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tasks.planning.hardware import hardware_names, load_gpus, load_hardware
from tasks.pricing.checks import usd_text
from tasks.pricing.offers import MarketOffer, load_offers, offer_doubts
from tasks.pricing.price import named
from tasks.schema import read_mapping


@dataclass(frozen=True, slots=True)
class Rentable:
    """An offer, with doubts about its price.

    `reach`: name for `--on`: a hardware file's, or `ssh://…?usd=` for a user's rental.
    """

    offer: MarketOffer
    reach: str
    doubts: tuple[str, ...] = ()


def rentable(folder: Path, today: date) -> list[Rentable]:
    """Return priced machines with GPUs, a hardware file in place of its offer.

    Raises:
        GridbenchError: a file has a mistake.
    """
    own_machines = _own(folder, today)
    instances = {(one.offer.provider, one.offer.instance, one.offer.purchase) for one in own_machines}
    offers = load_offers(folder)
    others = [
        Rentable(
            offer,
            address_at(offer.usd_per_hour),
            offer_doubts(offer, offers, today),
        )
        for offer in offers
        if (offer.provider, offer.instance, offer.purchase) not in instances
    ]
    return [*own_machines, *others]


def address_at(usd_per_hour: float) -> str:
    """Return the form for a user's rented box."""
    return f"ssh://…?usd={usd_text(usd_per_hour)}"


def _own(folder: Path, today: date) -> list[Rentable]:
    machines, peaks = [], load_gpus(folder)
    for name in hardware_names(folder):
        raw = read_mapping(folder / "hardware" / f"{name}.yaml").get("price")
        if not isinstance(raw, dict) or not named(raw):
            continue
        machine = load_hardware(name, folder, today)
        price, gpu = machine.price, machine.gpu or ""
        if not machine.gpus or machine.unsupported or price.purchase not in ("on-demand", "spot"):
            continue
        offer = MarketOffer(
            provider=raw["provider"],
            instance=raw.get("instance") or raw["host"],
            region=price.region,
            purchase=price.purchase,
            usd_per_hour=price.usd_per_hour,
            gpus=machine.gpus,
            gpu=gpu or "unknown",
            gpu_memory_gib=machine.gpu_memory_gb or (peaks[gpu].memory_gb if gpu else None),
            cpus=machine.job_variables.get("vcpus"),
            memory_gib=machine.memory_gb,
            source=price.source.rpartition("; ")[2],
            date=price.date,
        )
        machines.append(Rentable(offer, name, price.flags))
    return machines
