"""The configuration of a job on a box: the form's fields, and the checks that need no box."""

import ipaddress
import re
import uuid
from typing import Annotated, Literal, Self

from prefect.workers.base import BaseVariables, BaseWorkerResult
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from ..base.job_configuration import LONGEST_TIMEOUT_S, ContainerJobConfiguration
from ..brand import BRAND
from .slurm.request import SlurmRequest

Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00\n]+$")]
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")  # also an alias of ~/.ssh/config
DEFAULT_USER, DEFAULT_PORT = "ubuntu", 22
USER = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOUNT = re.compile(r"(/[^:,\0\n]*|[A-Za-z0-9][\w.-]*):/[^:,\0\n]*(:(ro|rw))?")
NONE = "none"  # in place of a container command
OF_CONTAINERS = ("image", "shared_memory_mib", "mounts", "memory_mib")  # the last one is Slurm's, too
# Rented boxes get no credentials of anybody's cloud.
CREDENTIALS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "LAMBDA_API_KEY"),
)


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host's IP address, or None where it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class SshAddress(BaseModel):
    """A machine that SSH reaches. Its host key is pinned: here, or in the worker's own known_hosts files.

    What is left out is as the worker's ~/.ssh/config has it for that address.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field(title="Address", description="Name, IP address, or a Host of ~/.ssh/config.")
    user: str | None = Field(
        default=None,
        title="User",
        description="Who logs in there. Empty: as in ~/.ssh/config, else ubuntu.",
        pattern=USER,
    )
    port: int | None = Field(
        default=None, title="Port", description="Empty: as in ~/.ssh/config, else 22.", ge=1, le=65535
    )
    key: Word | None = Field(
        default=None,
        title="Key",
        description="Path of a private key on the worker's machine, or block:NAME, a Secret block with one. "
        "Empty: as in ~/.ssh/config, else the worker's SSH agent and its default keys.",
    )
    host_key: str | None = Field(
        default=None,
        title="Host Key",
        description="The box's public host key, such as 'ssh-ed25519 AAAA…'. Empty: as in known_hosts.",
        pattern=r"^(ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/=]+( [^\n]*)?$",
    )

    @model_validator(mode="after")
    def _is_a_host(self) -> Self:
        if ip_address(self.address) is None and not HOST.fullmatch(self.address):
            raise ValueError(
                f"address {self.address!r} is neither a name nor an IP address; user and port have "
                "fields of their own"
            )
        return self

    def __str__(self) -> str:
        where = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user or DEFAULT_USER}@{where}:{self.port or DEFAULT_PORT}"


class Host(SshAddress):
    """A box, and the machines that lead to it."""

    jump: tuple[SshAddress, ...] = Field(
        default=(),
        title="Jump",
        description="The machines through which it is reached, the first one first. Their host keys are "
        "checked, too. Empty: as ProxyJump of ~/.ssh/config says.",
    )

    def __str__(self) -> str:
        return " via ".join([super().__str__(), *(str(hop) for hop in reversed(self.jump))])


class SshJobFields(BaseModel):
    """The fields that job variables and job configuration share."""

    hosts: list[Host] = Field(
        default_factory=list,
        title="Hosts",
        description="Boxes: the first that is free takes the job. One job at a time runs on a box.",
    )
    container_command: Literal["none"] | Annotated[list[Word], Field(min_length=1)] = Field(
        default=["docker"],
        title="Container Command",
        description="The container runtime of the box: docker, podman, or sudo and docker as two words. With "
        f"none, the job is a process tree that uses the box's Python and {BRAND.module}.",
    )
    python: Word | None = Field(
        default=None,
        title="Python",
        description=f"For jobs without containers: path of a Python of the box that has {BRAND.module}. "
        "Empty: the first that is found.",
    )
    scheduler: Literal["slurm"] | None = Field(
        default=None,
        title="Scheduler",
        description="slurm: the hosts are login nodes of a cluster, and the job is one of Slurm's.",
    )
    slurm: SlurmRequest = Field(
        default=SlurmRequest(),
        title="Slurm",
        description="What the job asks of Slurm beside time, memory and GPUs.",
    )
    image: Word | None = Field(
        default=None, title="Image", description="Image with Prefect and the flow's packages."
    )
    pull: Literal["if-not-present", "always", "never", "stream"] = Field(
        default="if-not-present",
        title="Pull Policy",
        description="stream: the image comes from the worker's machine over the SSH connection, for a box "
        "that reaches no registry.",
    )
    stream_command: list[Word] = Field(
        default=["docker"],
        title="Stream Command",
        description="What has the image on the worker's machine, where the pull policy is stream.",
        min_length=1,
    )
    gpus: int | Literal["all"] | list[Word] = Field(
        default=0, title="GPUs", description="all, how many, or their indices or UUIDs; 0 for none."
    )
    shared_memory_mib: int | None = Field(
        default=None,
        title="Shared Memory (MiB)",
        description="Size of /dev/shm, which data loaders use. Docker's own default is 64 MiB.",
        ge=1,
    )
    memory_mib: int | None = Field(
        default=None, title="Memory (MiB)", description="Limit of the container; none where empty.", ge=6
    )
    mounts: list[str] = Field(
        default_factory=list,
        title="Mounts",
        description="Folders of the box, as /on/the/box:/in/the/container or …:ro.",
    )
    keep: bool = Field(
        default=False,
        title="Keep",
        description=f"Cache on the box what jobs write to {BRAND.cache_path} for later jobs: code, packages "
        "and data by their hash. All other files of a job are deleted.",
    )
    tunnel: bool = Field(
        default=True,
        title="Tunnel",
        description="Reach the Prefect API through the SSH connection, so that the box needs no route to it.",
    )
    timeout_s: int = Field(
        default=14400,
        title="Timeout (Seconds)",
        description="The box itself stops the container after so long. It is always set.",
        ge=10,
        le=LONGEST_TIMEOUT_S,
    )
    wait_s: int = Field(
        default=3600,
        title="Patience for a Box (Seconds)",
        description="How long the job may wait until one of its boxes answers and is free.",
        ge=0,
    )
    lost_s: int = Field(
        default=900,
        title="Patience for a Connection (Seconds)",
        description="How long a box may be out of reach while its job runs, until the job counts as lost.",
        ge=10,
    )
    least_free_mib: int = Field(
        default=1024,
        title="Least Free Disk (MiB)",
        description="Of the home folder and of where images lie; with less the box is not fit.",
        ge=1,
    )
    lock_file: str = Field(
        default=BRAND.lock_file,
        title="Lock File",
        description="Who holds it has the box: the same file for all who use it alone. One that other users "
        "may open, too, they can also hold for as long as they like.",
        pattern=r"^~?/[^\x00\n]*$",
    )


class SshVariables(SshJobFields, BaseVariables):
    """The form of an `ssh` work pool, a deployment and a run."""


class SshWorkerResult(BaseWorkerResult):
    """The end of a job: where it ran, and the container's exit code, or -1 where there is none."""


class SshJobConfiguration(SshJobFields, ContainerJobConfiguration):
    """One flow run's job, ready to be started."""

    @property
    def has_containers(self) -> bool:
        """Return whether the job runs in a container, not as a process tree of its own."""
        return self.container_command != NONE

    @model_validator(mode="after")
    def _has_what_it_runs_in(self) -> Self:
        if self.has_containers and not self.image:
            raise ValueError("image is not set: name the image that has the flow's packages.")
        if self.has_containers:
            return self
        of_containers = OF_CONTAINERS[:-1] if self.scheduler else OF_CONTAINERS
        if field := next(filter(self.__getattribute__, of_containers), None):
            raise ValueError(f"{field} is set, and container_command is none: only a container has it.")
        if self.pull != "if-not-present":
            raise ValueError(f"pull is {self.pull}, and container_command is none: no image is pulled.")
        return self

    @model_validator(mode="after")
    def _fits_its_scheduler(self) -> Self:
        if self.scheduler and self.has_containers:
            command = self.container_command
            raise ValueError(
                f"container_command is {command} and scheduler is {self.scheduler}: set it to none."
            )
        if not self.scheduler and self.slurm != SlurmRequest():
            raise ValueError("slurm is set and scheduler is not: set scheduler to slurm.")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.hosts:
            raise ValueError("hosts is not set: name the box or the boxes that may run the job.")
        if twice := [str(host) for host in self.hosts if self.hosts.count(host) > 1]:
            raise ValueError(f"hosts names {twice[0]} more than once.")
        if isinstance(self.gpus, int) and self.gpus < 0:
            raise ValueError(f"gpus is {self.gpus}: it is all, a count, or a list of indices.")
        for mount in self.mounts:
            if not MOUNT.fullmatch(mount):
                raise ValueError(f"mounts has {mount!r}: it is /on/the/box:/in/the/container, or …:ro.")
        for name in self.env:
            if name in CREDENTIALS:
                raise ValueError(f"env sets {name}: a box gets no cloud credentials.")
            if not ENV_NAME.fullmatch(name):
                raise ValueError(f"env sets {name!r}: that is no name of a variable.")
        return self


def job_name(run_id: uuid.UUID, number: int) -> str:
    """Return the name of a try's container and of its folder on the box; no other try of any run has it."""
    return f"prefect-{run_id}-{number}"


def identifier(host: Host, name: str) -> str:
    """Return the id that is kept in the flow run, so that any worker finds the job again."""
    return f"{host}/{name}"


def host_and_name(job_id: str, hosts: list[Host]) -> tuple[Host, str] | None:
    """Return the host and the name in a job's identifier, or None where its host is none of these."""
    where, _, name = job_id.rpartition("/")
    return next(((host, name) for host in hosts if str(host) == where), None)
