"""The job variables for Slurm."""

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
    """Options of `sbatch` in addition to time, memory and GPUs, which every job has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: Names | None = Field(
        default=None,
        title="Partition",
        description="One or more, separated by commas. Empty: the cluster's default.",
    )
    account: Name | None = Field(default=None, title="Account", description="Account that is charged.")
    qos: Name | None = Field(default=None, title="Quality of Service")
    constraint: Features | None = Field(
        default=None, title="Constraint", description="Features of the node, such as a100&nvlink."
    )
    reservation: Name | None = Field(default=None, title="Reservation")
    gpu_type: Name | None = Field(
        default=None, title="GPU Type", description="Name in the output of `sinfo -o %G`, such as a100."
    )
    cpus: int | None = Field(
        default=None, title="CPUs", description="Empty: all CPUs of the node if it is exclusive.", ge=1
    )
    exclusive: bool = Field(
        default=True,
        title="Exclusive",
        description="Use the node exclusively, as benchmarks need it. With false, other jobs share it.",
    )
    login: Name | None = Field(
        default=None,
        title="Login Node",
        description="Name under which compute nodes reach the login node. Empty: its own host name.",
    )
