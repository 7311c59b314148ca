"""Offers as machines to predict, by card and form."""

from collections.abc import Iterator, Sequence

from tasks.planning.hardware import RENTED_POOL, GpuPeaks, Hardware, load_gpus
from tasks.planning.rentable import Rentable, address_at
from tasks.pricing.price import Price

FORMS = {"sxm", "sxm2", "pcie", "40", "80", "quadro"}  # words that gpuhunt's names of models lack
NEAR_GB = 4.0  # of a card's memory: sources count it in GB or GiB, with or without the driver's part


def offered(offers: Sequence[Rentable], gpus: int) -> list[Hardware]:
    """Return the cheapest offer of each card with this number of GPUs; two for two forms.

    On-demand and spot offers are separate. Hardware files' machines keep their names.
    """
    peaks = load_gpus()
    cheapest: dict[tuple[str, ...], Rentable] = {}
    for rentable in sorted(offers, key=lambda each: each.offer.usd_per_hour):
        if rentable.offer.gpus == gpus:
            cheapest.setdefault(
                (*_models(rentable, peaks), rentable.offer.purchase, _own_name(rentable)), rentable
            )
    return [machine for rentable in cheapest.values() for machine in _machines(rentable, peaks)]


def how_to_reach(machine: Hardware) -> str:
    """Return its name for `--on`, or the form of its address."""
    is_reached = machine.pool != RENTED_POOL or machine.rent or "hosts" in machine.job_variables
    return machine.name if is_reached else address_at(machine.price.usd_per_hour)


def _machines(rentable: Rentable, peaks: dict[str, GpuPeaks]) -> Iterator[Hardware]:
    offer = rentable.offer
    models = _models(rentable, peaks)
    for model in models:
        form = f", if it is {model}" if len(models) > 1 else ""
        spot = ", spot" if offer.purchase == "spot" else ""
        yield Hardware(
            name=_own_name(rentable) or f"{offer.provider} {offer.instance}{spot}{form}",
            title=f"{offer.gpus} x {offer.gpu} at {offer.provider}",
            pool=RENTED_POOL,
            device="cuda",
            gpus=offer.gpus,
            gpu=model,
            gpu_memory_gb=offer.gpu_memory_gib,
            price=Price(
                usd_per_hour=offer.usd_per_hour,
                purchase=offer.purchase,
                source=offer.source,
                date=offer.date,
                region=offer.region,
            ),
        )


def _own_name(rentable: Rentable) -> str:
    return "" if "://" in rentable.reach else rentable.reach


def _models(rentable: Rentable, peaks: dict[str, GpuPeaks]) -> list[str]:
    """Return models of that name with the nearest memory, in the instance's form."""
    offer = rentable.offer
    if offer.gpu in peaks:
        return [offer.gpu]
    named = [
        m for m in peaks if "".join(word for word in m.split("-") if word not in FORMS) == offer.gpu.lower()
    ]
    instance = offer.instance.lower()
    named = [
        m for m in named if (form := m.rpartition("-")[2][:3]) in ("sxm", "pci") and form in instance
    ] or named
    far = {m: abs((offer.gpu_memory_gib or 0.0) - peaks[m].memory_gb) for m in named}
    return [m for m in named if far[m] <= min(far.values()) + NEAR_GB]
