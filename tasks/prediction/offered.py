"""Offers as machines to predict: each with the model of its card in `gpus.yaml`, in every form that it can have."""

from collections.abc import Iterator, Sequence

from tasks.planning.hardware import RENTED_POOL, GpuPeaks, Hardware, load_gpus
from tasks.planning.rentable import Rentable
from tasks.pricing.price import Price

FORMS = {"sxm", "sxm2", "pcie", "40", "80", "quadro"}  # words of a model that gpuhunt's names leave out
NEAR_GB = 4.0  # of a card's memory: sources count it in GB or GiB, with or without the driver's part


def offered(offers: Sequence[Rentable], gpus: int) -> list[Hardware]:
    """Return a machine for each offer with this number of GPUs; two if its card comes in two forms."""
    peaks = load_gpus()
    machines = (machine for rentable in offers for machine in _machines(rentable, peaks))
    return [machine for machine in machines if machine.gpus == gpus]


def _machines(rentable: Rentable, peaks: dict[str, GpuPeaks]) -> Iterator[Hardware]:
    offer = rentable.offer
    models = _models(rentable, peaks)
    for model in models:
        form = f", if it is {model}" if len(models) > 1 else ""
        spot = ", spot" if offer.purchase == "spot" else ""
        yield Hardware(
            name=f"{offer.provider} {offer.instance}{spot}{form}",
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


def _models(rentable: Rentable, peaks: dict[str, GpuPeaks]) -> list[str]:
    """Return the models of an offer's name whose memory is nearest to its own."""
    offer = rentable.offer
    if offer.gpu in peaks:
        return [offer.gpu]
    named = [
        m for m in peaks if "".join(word for word in m.split("-") if word not in FORMS) == offer.gpu.lower()
    ]
    far = {m: abs((offer.gpu_memory_gib or 0.0) - peaks[m].memory_gb) for m in named}
    return [m for m in named if far[m] <= min(far.values()) + NEAR_GB]
