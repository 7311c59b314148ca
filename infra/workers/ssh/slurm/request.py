"""The fields of a lane on Slurm."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# Slurm's own names; a constraint may combine features.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$", max_length=128)]
Names = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*(,[A-Za-z0-9_][A-Za-z0-9_.:-]*)*$")
]
Features = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_(\[][A-Za-z0-9_.:&|*,()\[\]-]*$", max_length=256)
]


class SlurmRequest(BaseModel):
    """Wishes of a lane to Slurm, beside time, memory and GPUs, which every job has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: Names | None = Field(
        default=None, title="Partition", description="One or several, with commas. Empty: the cluster's own."
    )
    account: Name | None = Field(default=None, title="Account", description="Who pays.")
    qos: Name | None = Field(default=None, title="Quality of Service")
    constraint: Features | None = Field(
        default=None, title="Constraint", description="Features of the node, such as a100&nvlink."
    )
    reservation: Name | None = Field(default=None, title="Reservation")
    gpu_type: Name | None = Field(
        default=None, title="GPU Type", description="As `sinfo -o %G` names it, such as a100."
    )
    cpus: int | None = Field(
        default=None, title="CPUs", description="Empty: all of the node, where it is exclusive.", ge=1
    )
    exclusive: bool = Field(
        default=True,
        title="Exclusive",
        description="Have the node alone, as a measurement needs it. With false others share it.",
    )
    login: Name | None = Field(
        default=None,
        title="Login Node",
        description="As compute nodes reach it. Empty: the name that it has for itself.",
    )
