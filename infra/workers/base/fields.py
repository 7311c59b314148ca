"""The job variables that several workers have: a pool's form shows their titles and descriptions."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, field_validator

from .job_configuration import LONGEST_TIMEOUT_S

Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00\n]+$")]
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


def secret_field(variable: str, kind: str, pattern: str) -> Any:
    """Return the field that names the secret with one of Prefect's settings."""
    words = variable.replace("_", " ").title().replace("Api", "API")
    return Field(
        default=None,
        title=f"{words} {kind}",
        description=f"{kind} that holds {variable}. Required if the worker has this setting.",
        pattern=pattern,
    )


def env_name_fault(names: Iterable[str]) -> str | None:
    """Return an error for the first name that no environment variable can have."""
    wrong = next((name for name in names if not ENV_NAME.fullmatch(name)), None)
    return wrong and f"env sets {wrong!r}: use letters, digits and _ for the name, and no digit first."
