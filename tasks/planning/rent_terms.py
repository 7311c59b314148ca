"""Terms of a rental in a hardware file."""

from typing import Annotated, Literal

from pydantic import Field

from tasks.schema import Strict, Waited


class RentTerms(Strict):
    """Terms of a rental; `rent: lambda` means the defaults.

    Attributes:
        instances: types in order of preference; the price's by default.
        regions: in order of preference; None for any.
        boot_s: longest from launch to SSH login.
        most_hours: longest from launch to return.
        most_usd_per_hour: a fifth above the file's by default.
    """

    provider: Literal["lambda"]
    instances: Annotated[tuple[str, ...], Field(min_length=1)]
    regions: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    capacity_s: Waited = 1800.0
    boot_s: Waited = 1200.0  # an 8x machine takes up to 15 minutes
    most_hours: Annotated[float, Field(gt=0, le=24 * 365)] = 8.0
    most_usd_per_hour: Annotated[float, Field(ge=0, le=1e6)] | None = None
