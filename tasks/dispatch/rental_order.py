"""The order for a rented box, and its largest cost."""

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from tasks.dispatch.rental_labels import billed_s_of
from tasks.planning.hardware import Hardware
from tasks.planning.rent_terms import RentTerms
from tasks.results.billing import affordable_s, usd
from tasks.schema import Strict

DEARER = 1.2  # accepted price over the price in the hardware file
LEAST_S = 600.0  # shortest rental: a shorter one would boot and go back


class RentalOrder(Strict):
    """An order for one rented box, the parameter of the flow `rental`.

    Attributes:
        instances: the provider's types, in the order of preference.
        regions: in the order of preference; None for any.
        capacity_s: how long to wait for capacity.
        boot_s: longest time from launch to SSH login.
        most_s: longest time from launch until the box is given back.
        most_usd_per_hour: highest accepted price.
        session: of the lane for which the box is rented.
        poll_s: between two polls of the labels and of the run's `bench`; None for the renter's own.
    """

    run: str
    hardware: str
    instances: tuple[str, ...]
    regions: tuple[str, ...] | None = None
    capacity_s: PositiveFloat
    boot_s: PositiveFloat
    most_s: PositiveFloat
    most_usd_per_hour: NonNegativeFloat
    poll_s: PositiveFloat | None = None
    session: PositiveInt = 1

    @property
    def due_s(self) -> float:
        """Return seconds from order to tagged deadline."""
        return self.capacity_s + self.boot_s + self.most_s

    @property
    def most_usd(self) -> float:
        """Return the largest cost while the holder lives."""
        return usd(billed_s_of(self.most_s), self.most_usd_per_hour)

    @property
    def orphan_usd(self) -> float:
        """Return the cost if the holder dies and the box is swept at its deadline."""
        return usd(billed_s_of(self.due_s), self.most_usd_per_hour)

    @property
    def worst_case(self) -> str:
        return (
            f"at most {self.most_s / 3600:.1f} h at {self.most_usd_per_hour:.2f} USD an hour, "
            f"{self.most_usd:.2f} USD; if this machine fails meanwhile, {self.orphan_usd:.2f} USD by its "
            f"deadline in {self.due_s / 3600:.1f} h, when a command or a sweep with the key has to end it"
        )


def order_for(machine: Hardware, rent: RentTerms, run: str, left_usd: float | None) -> RentalOrder:
    """Return the order, for no longer than the money lasts."""
    most_usd_per_hour = _most_usd_per_hour(machine, rent)
    most_s = rent.most_hours * 3600
    if left_usd is not None and most_usd_per_hour:
        most_s = min(most_s, affordable_s(left_usd, most_usd_per_hour))
    return RentalOrder(
        run=run,
        hardware=machine.name,
        instances=rent.instances,
        regions=rent.regions,
        capacity_s=rent.capacity_s,
        boot_s=rent.boot_s,
        most_s=max(most_s, LEAST_S),
        most_usd_per_hour=most_usd_per_hour,
    )


def buys_a_box(machine: Hardware, rent: RentTerms, left_usd: float | None) -> bool:
    """Return whether the money pays for the shortest rental."""
    most_usd_per_hour = _most_usd_per_hour(machine, rent)
    return left_usd is None or usd(billed_s_of(LEAST_S), most_usd_per_hour) <= left_usd


def _most_usd_per_hour(machine: Hardware, rent: RentTerms) -> float:
    most = rent.most_usd_per_hour
    return DEARER * machine.price.usd_per_hour if most is None else most
