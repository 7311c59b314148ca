"""The terms of a rental in a hardware file."""

from typing import Annotated, Literal

from pydantic import Field

from tasks.schema import Strict, Waited


class RentTerms(Strict):
    """Terms of a rental; `rent: lambda` means the defaults.

    Attributes:
        instances: the provider's types, in the order of preference; that of the price by default.
        regions: in the order of preference; None for any.
        capacity_s: longest wait for capacity.
        boot_s: longest time from the launch to an SSH login.
        most_hours: longest time from the launch until the box is given back.
        most_usd_per_hour: highest accepted price; a fifth above the file's by default.
    """

    provider: Literal["lambda"]
    instances: Annotated[tuple[str, ...], Field(min_length=1)]
    regions: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    capacity_s: Waited = 1800.0
    boot_s: Waited = 1200.0  # an 8x machine takes up to 15 minutes
    most_hours: Annotated[float, Field(gt=0, le=24 * 365)] = 8.0
    most_usd_per_hour: Annotated[float, Field(ge=0, le=1e6)] | None = None
