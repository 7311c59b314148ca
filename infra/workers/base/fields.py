"""The job variables that several workers share."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from prefect.workers.base import BaseVariables
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from .job_configuration import LONGEST_TIMEOUT_S

Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00\n]+$")]
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Bounds far above any machine's: a number beyond 64 bits would make Prefect's API fail for every later list.
MOST_MIB = 2**30  # 1 PiB
MOST_GPUS = 1024
MOST_CPUS = 10_000


class JobFields(BaseModel):
    """The job variables that all workers have."""

    image: Word | None = Field(
        default=None,
        title="Image",
        description="Container image with Prefect and the flow's packages, best pinned by its digest.",
    )
    shared_memory_mib: int | None = Field(
        default=None,
        title="Shared Memory (MiB)",
        description="Size of /dev/shm, which data loaders use. Empty: 64 MiB, the runtime's default.",
        ge=1,
        le=MOST_MIB,
    )
    timeout_s: int = Field(
        default=14400,
        title="Timeout (Seconds)",
        description="Time limit of the job. Every job has one.",
        ge=10,
        le=LONGEST_TIMEOUT_S,
    )

    @field_validator("image")
    @classmethod
    def _check_image(cls, image: str | None) -> str | None:
        if image and image.startswith("-"):
            raise ValueError(
                f"{image!r} is an option of the container runtime, expected the name of an image"
            )
        return image


class FormVariables(BaseVariables):
    """A work pool's form, which refuses unknown names: Prefect would drop them silently."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the schema with the keys that Prefect's base class removes, nested models included."""
        schema = super().model_json_schema(*args, **options)
        for name, model in (
            super(BaseVariables, cls).model_json_schema(*args, **options).get("$defs", {}).items()
        ):
            if model.get("additionalProperties") is False:
                schema["definitions"][name]["additionalProperties"] = False
        return schema | {"additionalProperties": False}


def secret_field(variable: str, kind: str, pattern: str) -> Any:
    words = variable.replace("_", " ").title().replace("Api", "API")
    return Field(
        default=None,
        title=f"{words} {kind}",
        description=f"{kind} that holds {variable}. Required if the worker has this setting.",
        pattern=pattern,
    )


def env_name_fault(names: Iterable[str]) -> str | None:
    wrong = next((name for name in names if not ENV_NAME.fullmatch(name)), None)
    return wrong and f"env sets {wrong!r}: use letters, digits and _ for the name, and no digit first."
