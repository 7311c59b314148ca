"""A rented box's status, in its flow run's labels.

A lane's machine must be known before its job is sent, and rentals visible after a crash.
"""

import math
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import NonNegativeFloat

from tasks.results.billing import usd
from tasks.schema import Strict

TAG = "gridbench-rental"  # of every flow run that holds a box
PREFIX = "rental."
RELEASE = f"{PREFIX}release"  # set by `bench` when it does not need the box any more
BILLED_BY_S = 60  # Lambda bills by the minute: a minute that has begun counts


def billed_s_of(seconds: float) -> float:
    """Return the seconds of whole minutes, rounded up."""
    return math.ceil(max(seconds, 0.0) / BILLED_BY_S) * BILLED_BY_S


def billed_s(since: datetime, until: datetime) -> float:
    return billed_s_of((until - since).total_seconds())


class RentalStatus(Strict):
    """A rental's box, and earlier ones that did not boot; None for unknown.

    Attributes:
        name: of lease, instance, SSH key, and the Secret block with the private key.
        instance: the provider's id.
        since, answered, until, returned: launch, first login, deadline, return.
        earlier_s, earlier_usd: of boxes returned because they did not boot.
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
        """Read a status from labels.

        Raises:
            pydantic.ValidationError: something else wrote them.
        """
        ours = {key.removeprefix(PREFIX): value for key, value in labels.items() if key.startswith(PREFIX)}
        return cls.model_validate({key: value for key, value in ours.items() if key in cls.model_fields})

    @property
    def labels(self) -> dict[str, str | float]:
        """Write times in ISO 8601."""
        return {
            f"{PREFIX}{key}": value for key, value in self.model_dump(mode="json", exclude_none=True).items()
        }

    @property
    def answers(self) -> bool:
        """Return whether the box can be measured on."""
        return self.answered is not None and self.returned is None

    def billed_s(self, now: datetime | None = None) -> float:
        """Return the time from launch to return, or to now, in whole minutes."""
        if self.since is None:
            return 0.0
        return billed_s(self.since, self.returned or now or datetime.now(UTC))

    def cost_usd(self, now: datetime | None = None) -> float:
        """Return the cost, with boxes that did not boot."""
        return self.earlier_usd + usd(self.billed_s(now), self.usd_per_hour or 0.0)

    @property
    def host(self) -> dict[str, str | None]:
        """Return an entry of `hosts`, a job variable of `ssh` pools."""
        return {
            "address": self.address,
            "user": self.user,
            "key": f"block:{self.name}",
            "host_key": self.host_key,
        }
