"""The configuration of a job on a box."""

import ipaddress
import re
import uuid
from typing import Annotated, Literal, Self

from prefect.workers.base import BaseWorkerResult
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema, model_validator

from ..base.fields import MOST_CPUS, MOST_GPUS, MOST_MIB, FormVariables, JobFields, Word, env_name_fault
from ..base.job_configuration import LONGEST_TIMEOUT_S, ContainerJobConfiguration
from ..brand import BRAND

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")  # also an alias of ~/.ssh/config
DEFAULT_USER, DEFAULT_PORT = "ubuntu", 22
USER = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
MOUNT = re.compile(r"(/[^:,\0\n]*|[A-Za-z0-9][\w.-]*):/[^:,\0\n]*(:(ro|rw))?")
NONE = "none"  # in place of a container command
OF_CONTAINERS = ("image", "shared_memory_mib", "mounts", "memory_mib")  # the last one is Slurm's, too
# Rented boxes never get cloud credentials.
CREDENTIALS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "LAMBDA_API_KEY"),
)

# Slurm's own names; a constraint can combine features.
SlurmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$", max_length=128)]
SlurmNames = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*(,[A-Za-z0-9_][A-Za-z0-9_.:-]*)*$")
]
Features = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_(\[][A-Za-z0-9_.:&|*,()\[\]-]*$", max_length=256)
]
# The form has the bounds; the configuration checks them by a sentence about all three kinds of values.
GpuCount = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MOST_GPUS})]


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class SshAddress(BaseModel):
    """A machine that SSH reaches. Its host key is pinned here or in the worker's known_hosts files.

    Empty fields take the values of the worker's ~/.ssh/config.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field(title="Address", description="Host name, IP address, or a Host of ~/.ssh/config.")
    user: str | None = Field(
        default=None,
        title="User",
        description="User name for the login. Empty: as in ~/.ssh/config, otherwise ubuntu.",
        pattern=USER,
    )
    port: int | None = Field(
        default=None, title="Port", description="Empty: as in ~/.ssh/config, otherwise 22.", ge=1, le=65535
    )
    key: Word | None = Field(
        default=None,
        title="Key",
        description="Path of a private key on the worker's machine, or block:NAME for a Secret block with one. "
        "Empty: as in ~/.ssh/config, otherwise the worker's SSH agent and default keys.",
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
                f"address {self.address!r} is neither a name nor an IP address: set user and port "
                "in separate fields"
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
        description="Jump hosts on the way to the box, in order. Their host keys are checked, too. "
        "Empty: as ProxyJump in ~/.ssh/config.",
    )

    def __str__(self) -> str:
        return " via ".join([super().__str__(), *(str(hop) for hop in reversed(self.jump))])


class SlurmRequest(BaseModel):
    """Options of `sbatch` in addition to time, memory and GPUs, which every job has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: SlurmNames | None = Field(
        default=None,
        title="Partition",
        description="One or more, separated by commas. Empty: the cluster's default.",
    )
    account: SlurmName | None = Field(default=None, title="Account", description="Account that is charged.")
    qos: SlurmName | None = Field(default=None, title="Quality of Service")
    constraint: Features | None = Field(
        default=None, title="Constraint", description="Features of the node, such as a100&nvlink."
    )
    reservation: SlurmName | None = Field(default=None, title="Reservation")
    gpu_type: SlurmName | None = Field(
        default=None, title="GPU Type", description="Name in the output of `sinfo -o %G`, such as a100."
    )
    cpus: int | None = Field(
        default=None,
        title="CPUs",
        description="Empty: all CPUs of the node if it is exclusive.",
        ge=1,
        le=MOST_CPUS,
    )
    exclusive: bool = Field(
        default=True,
        title="Exclusive",
        description="Use the node exclusively, as benchmarks need it. With false, other jobs share it.",
    )
    login: SlurmName | None = Field(
        default=None,
        title="Login Node",
        description="Name under which compute nodes reach the login node. Empty: its own host name.",
    )


class SshJobFields(JobFields):
    """The fields that job variables and job configuration share."""

    hosts: list[Host] = Field(
        default_factory=list,
        title="Hosts",
        description="Boxes: the first free one runs the job. Each box runs one job at a time.",
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
        description="slurm: the hosts are login nodes of a cluster, and the job is submitted to Slurm.",
    )
    slurm: SlurmRequest = Field(
        default=SlurmRequest(),
        title="Slurm",
        description="Options for Slurm in addition to time, memory and GPUs.",
    )
    pull: Literal["if-not-present", "always", "never", "stream"] = Field(
        default="if-not-present",
        title="Pull Policy",
        description="When the box pulls the image. stream: copy it from the worker's machine over the SSH "
        "connection, for a box that cannot reach a registry.",
    )
    stream_command: list[Word] = Field(
        default=["docker"],
        title="Stream Command",
        description="Container runtime of the worker's machine that has the image. Used if the pull policy is stream.",
        min_length=1,
    )
    gpus: GpuCount | Literal["all"] | list[Word] = Field(
        default=0,
        title="GPUs",
        description="all, a number of GPUs, or a list of indices or UUIDs. 0: no GPU.",
    )
    memory_mib: int | None = Field(
        default=None,
        title="Memory (MiB)",
        description="Memory limit of the container. Empty: no limit.",
        ge=6,
        le=MOST_MIB,
    )
    mounts: list[str] = Field(
        default_factory=list,
        title="Mounts",
        description="Folders of the box, as /on/the/box:/in/the/container, or …:ro for read-only.",
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
    wait_s: int = Field(
        default=3600,
        title="Patience for a Box (Seconds)",
        description="Longest wait until a box answers and is free. After it, the job is cancelled.",
        ge=0,
        le=LONGEST_TIMEOUT_S,
    )
    lost_s: int = Field(
        default=900,
        title="Patience for a Connection (Seconds)",
        description="Time without a connection to the box after which a running job counts as lost.",
        ge=10,
        le=LONGEST_TIMEOUT_S,
    )
    least_free_mib: int = Field(
        default=1024,
        title="Least Free Disk (MiB)",
        description="Least free disk space for the home folder and for images. A box with less is refused.",
        ge=1,
        le=MOST_MIB,
    )
    lock_file: str = Field(
        default=BRAND.lock_file,
        title="Lock File",
        description="A job runs only while it holds this lock, so all programs that need the box exclusively "
        "must use the same file. Any user who can open the file can hold the lock.",
        pattern=r"^~?/[^\x00\n]*$",
    )


class SshVariables(SshJobFields, FormVariables):
    """The form of an `ssh` work pool, a deployment and a run."""


class SshWorkerResult(BaseWorkerResult):
    """The end of a job; exit code -1 if there is none."""


class SshJobConfiguration(SshJobFields, ContainerJobConfiguration):
    """One flow run's job."""

    @property
    def has_containers(self) -> bool:
        return self.container_command != NONE

    @model_validator(mode="after")
    def _has_what_it_runs_in(self) -> Self:
        if self.has_containers and not self.image:
            raise ValueError("image is not set: name the image that has the flow's packages.")
        if self.has_containers:
            return self
        of_containers = OF_CONTAINERS[:-1] if self.scheduler else OF_CONTAINERS
        if field := next(filter(self.__getattribute__, of_containers), None):
            raise ValueError(
                f"{field} is set, but applies only to containers: leave it out, or set container_command."
            )
        if self.pull != "if-not-present":
            raise ValueError(
                f"pull is {self.pull}, but applies only to containers: leave it out, or set container_command."
            )
        return self

    @model_validator(mode="after")
    def _fits_its_scheduler(self) -> Self:
        if self.scheduler and self.has_containers:
            command = self.container_command
            raise ValueError(
                f"container_command is {command} and scheduler is {self.scheduler}: set container_command to none."
            )
        if not self.scheduler and self.slurm != SlurmRequest():
            raise ValueError("slurm is set but scheduler is not: set scheduler to slurm.")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.hosts:
            raise ValueError("hosts is not set: name at least one box.")
        if twice := [str(host) for host in self.hosts if self.hosts.count(host) > 1]:
            raise ValueError(f"hosts names {twice[0]} more than once.")
        if isinstance(self.gpus, int) and not 0 <= self.gpus <= MOST_GPUS:
            numbers = f"a number from 0 to {MOST_GPUS}"
            raise ValueError(f"gpus is {self.gpus}: set all, {numbers}, or a list of indices.")
        for mount in self.mounts:
            if not MOUNT.fullmatch(mount):
                raise ValueError(f"mounts has {mount!r}: write /on/the/box:/in/the/container, or …:ro.")
        for name in self.env:
            if name in CREDENTIALS:
                raise ValueError(f"env sets {name}: cloud credentials are never sent to a box.")
        if fault := env_name_fault(self.env):
            raise ValueError(fault)
        return self


def job_name(run_id: uuid.UUID, number: int) -> str:
    return f"prefect-{run_id}-{number}"


def identifier(host: Host, name: str) -> str:
    """Return the id by which any worker finds the job again."""
    return f"{host}/{name}"


def host_and_name(job_id: str, hosts: list[Host]) -> tuple[Host, str] | None:
    """Parse a job's identifier; None if its host is not in `hosts`."""
    where, _, name = job_id.rpartition("/")
    return next(((host, name) for host in hosts if str(host) == where), None)
