"""A box that is rented for a lane: what is asked for, and what the flow `rental` that holds it says of it.

The flow run says it in its labels, because a lane's machine has to be known before its job is sent, and
because what was rented must be seen by whoever looks, also after a crash.
"""

import math
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import NonNegativeFloat, PositiveFloat

from tasks.schema import Strict

TAG = "gridbench-rental"  # of every flow run that holds a box
PREFIX = "rental."
RELEASE = f"{PREFIX}release"  # set by whoever has the box measured: it is not needed any more
BILLED_BY_S = 60  # Lambda bills by the minute: a minute that has begun counts


def billed_s(since: datetime, until: datetime) -> float:
    """Seconds that are paid for of a box that was launched and given back at these times."""
    return math.ceil(max((until - since).total_seconds(), 0.0) / BILLED_BY_S) * BILLED_BY_S


class RentalOrder(Strict):
    """What to rent, as the flow's parameter.

    Attributes:
        instances: the provider's types, in the order of preference.
        regions: in the order of preference; None for any.
        capacity_s: how long it is waited for a box to be free.
        boot_s: from the launch until its SSH server lets us in; what takes longer is given back.
        most_s: from the launch until it is given back, whatever it does then.
        most_usd_per_hour: what asks for more is not rented.
    """

    run: str
    hardware: str
    instances: tuple[str, ...]
    regions: tuple[str, ...] | None = None
    capacity_s: PositiveFloat
    boot_s: PositiveFloat
    most_s: PositiveFloat
    most_usd_per_hour: NonNegativeFloat


class RentalStatus(Strict):
    """What is known of a rented box, or of what was rented before it and did not boot; None: not yet.

    Attributes:
        name: of the lease, of the instance, of its SSH key, and of the Secret block with the private half.
        instance: the provider's id of the instance.
        type, region: what was launched, and where.
        address, user, host_key: how its SSH server is reached, and the key that it must show.
        usd_per_hour: the price paid, in US dollars.
        since, answered, until, returned: when it was launched, let us in, is due, was given back.
        earlier_s, earlier_usd: time and cost of boxes that were given back because they did not boot.
    """

    name: str | None = None
    instance: str | None = None
    type: str | None = None
    region: str | None = None
    address: str | None = None
    user: str | None = None
    host_key: str | None = None
    usd_per_hour: NonNegativeFloat | None = None
    since: datetime | None = None
    answered: datetime | None = None
    until: datetime | None = None
    returned: datetime | None = None
    earlier_s: NonNegativeFloat = 0.0
    earlier_usd: NonNegativeFloat = 0.0

    @classmethod
    def of(cls, labels: dict[str, Any]) -> Self:
        """Read a rental's status from a flow run's labels.

        Raises:
            pydantic.ValidationError: they were written by something else.
        """
        ours = {key.removeprefix(PREFIX): value for key, value in labels.items() if key.startswith(PREFIX)}
        return cls.model_validate({key: value for key, value in ours.items() if key in cls.model_fields})

    @property
    def labels(self) -> dict[str, str | float]:
        """Return the status as labels, times in ISO 8601."""
        return {
            f"{PREFIX}{key}": value for key, value in self.model_dump(mode="json", exclude_none=True).items()
        }

    @property
    def answers(self) -> bool:
        """Return whether the box can be measured on."""
        return self.answered is not None and self.returned is None

    def billed_s(self, now: datetime | None = None) -> float:
        """Seconds that are paid for: whole minutes from its launch to its return, or to now."""
        if self.since is None:
            return 0.0
        return billed_s(self.since, self.returned or now or datetime.now(UTC))

    def cost_usd(self, now: datetime | None = None) -> float:
        """Return the cost so far in USD, with the boxes that did not boot."""
        return self.earlier_usd + (self.usd_per_hour or 0.0) * self.billed_s(now) / 3600

    @property
    def host(self) -> dict[str, str | None]:
        """The box as an entry of `hosts`, a job variable of `ssh` work pools."""
        return {
            "address": self.address,
            "user": self.user,
            "key": f"block:{self.name}",
            "host_key": self.host_key,
        }
