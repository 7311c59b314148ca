"""Requests to Lambda's API and its answers (OpenAPI document 1.8.3)."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

ENDED = frozenset({"terminating", "terminated"})  # these need no action any more
USER_DATA_BYTES = 1_000_000  # API document, InstanceLaunchRequest.user_data: at most 1 MB
# API document, PublicRegionCode. Answers can name newer ones.
REGIONS = (
    "asia-northeast-1",
    "asia-northeast-2",
    "asia-south-1",
    "australia-east-1",
    "europe-central-1",
    "me-west-1",
    "us-east-1",
    "us-east-2",
    "us-east-3",
    "us-midwest-1",
    "us-midwest-2",
    "us-south-1",
    "us-south-2",
    "us-south-3",
    "us-west-1",
    "us-west-2",
    "us-west-3",
)

Limited = Annotated[str, StringConstraints(min_length=1, max_length=64)]
TagKey = Annotated[str, StringConstraints(max_length=55, pattern=r"^[a-z][a-z0-9-:]+$")]
TagValue = Annotated[str, StringConstraints(max_length=128)]


class LambdaModel(BaseModel):
    """A part of an answer; unread fields are dropped, such as an instance's Jupyter token."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class LambdaInstanceType(LambdaModel):
    """A machine shape and its price, the same in every region."""

    name: str
    price_cents_per_hour: float = Field(ge=0, allow_inf_nan=False)

    @property
    def usd_per_hour(self) -> float:
        return round(self.price_cents_per_hour / 100, 4)


class LambdaRegion(LambdaModel):
    """A location of instances."""

    name: str


class LambdaOffer(LambdaModel):
    """An instance type, and the regions that report capacity for it."""

    instance_type: LambdaInstanceType
    regions_with_capacity_available: tuple[LambdaRegion, ...] = ()

    @property
    def regions(self) -> tuple[str, ...]:
        """Return the regions that report capacity; they can still refuse a launch."""
        return tuple(region.name for region in self.regions_with_capacity_available)


def _by_key(tags: Any) -> Any:
    if isinstance(tags, list):
        return {tag.get("key"): tag.get("value") for tag in tags if isinstance(tag, dict)}
    return tags or {}


class LambdaInstance(LambdaModel):
    """A rented machine; its public `ip` comes some time after the launch.

    `status` is booting, active, unhealthy, terminated, terminating, preempted, or an unknown one.
    """

    id: str
    status: str
    name: str | None = None
    ip: str | None = None
    ssh_key_names: tuple[str, ...] = ()
    region: LambdaRegion
    instance_type: LambdaInstanceType
    tags: Annotated[dict[str, str], BeforeValidator(_by_key)] = {}

    @property
    def ended(self) -> bool:
        return self.status in ENDED


class SshKey(LambdaModel):
    """A public key of the account."""

    id: str
    name: str
    public_key: str


class Launched(LambdaModel):
    """The answer to a launch."""

    instance_ids: tuple[str, ...] = Field(min_length=1)


class LaunchRequest(BaseModel):
    """A launch of one instance, found by its unique name if the answer is lost."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    region_name: str
    instance_type_name: str
    ssh_key_names: tuple[Limited]
    name: Limited
    tags: dict[TagKey, TagValue] = {}
    user_data: str | None = Field(default=None, repr=False)  # holds the host's private key

    @field_validator("user_data")
    @classmethod
    def _fits(cls, text: str | None) -> str | None:
        if text and len(text.encode()) > USER_DATA_BYTES:
            raise ValueError(f"has {len(text.encode())} bytes, and Lambda takes {USER_DATA_BYTES} at most")
        return text

    def body(self) -> dict[str, Any]:
        tags = [{"key": key, "value": value} for key, value in self.tags.items()]
        return {**self.model_dump(exclude_none=True, mode="json"), "tags": tags}
