"""The form of a `kubernetes-jobs` work pool."""

from typing import Annotated, Literal, Self

from prefect_kubernetes.credentials import KubernetesClusterConfig
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from infra.workers.base.environment import SECRETS
from infra.workers.base.fields import MOST_CPUS, MOST_GPUS, MOST_MIB, JobFields, secret_field
from infra.workers.base.job_configuration import LONGEST_TIMEOUT_S

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names and …/labels
LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
PREFIX = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?"
LabelKey = Annotated[str, StringConstraints(pattern=f"^{PREFIX}{LABEL}")]
LabelValue = Annotated[str, StringConstraints(pattern=f"^{LABEL}")]
SECRET = ("Secret", r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_.]+$")  # name/key
# For pods that are not the system's: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
SPOT_GRACE_S = 15
LONGEST_GRACE_S = 3600
Choice = Literal["accelerator", "driver_version", "spot", "node_pool"]


class Toleration(BaseModel):
    """A taint that the pod tolerates, with the fields of Kubernetes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            text = f"value {self.value!r} with operator Exists: leave it out, or set operator to Equal"
            raise ValueError(text)
        if self.operator == "Equal" and self.key is None:
            text = "key is not set with operator Equal: name the taint's key, or set operator to Exists"
            raise ValueError(text)
        return self


class KubernetesJobFields(JobFields):
    """The fields that job variables and job configuration share."""

    namespace: str = Field(
        default="default",
        title="Namespace",
        description="Namespace of the jobs.",
        pattern=NAME,
        max_length=63,
    )
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", title="Image Pull Policy", description="When a node pulls the image."
    )
    image_pull_secrets: list[Name] = Field(
        default_factory=list,
        title="Image Pull Secrets",
        description="Secrets of the namespace with logins to registries. Empty: the nodes' own permissions are used.",
    )
    accelerator: LabelValue | None = Field(
        default=None,
        title="Accelerator",
        description="GPU model as in the nodes' label, such as nvidia-l4. Empty: any model.",
    )
    gpus: int = Field(
        default=0,
        title="GPUs",
        description="Number of GPUs, used by this container only.",
        ge=0,
        le=MOST_GPUS,
    )
    driver_version: Literal["DEFAULT", "LATEST"] | None = Field(
        default=None,
        title="Driver Version",
        description="Use only nodes with this version of the NVIDIA driver. Empty: any version.",
    )
    spot: bool = Field(
        default=False, title="Spot", description="Use only spot nodes, which can be preempted."
    )
    node_pool: LabelValue | None = Field(
        default=None, title="Node Pool", description="Use only nodes of this pool. Empty: any pool."
    )
    node_labels: dict[Choice, LabelKey] = Field(
        default_factory=dict,
        title="Node Labels",
        description="Node labels that hold accelerator, driver_version, spot and node_pool.",
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, title="Node Selector", description="Further labels that the node must have."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        title="Tolerations",
        description="Additional taints to tolerate. Those of GPUs and of spot nodes are always tolerated.",
    )
    vcpus: float = Field(
        default=1.0,
        title="vCPUs",
        description="CPU request and limit of the container. Nodes reserve some CPU for themselves.",
        ge=0.001,
        le=MOST_CPUS,
    )
    memory_mib: int = Field(
        default=2048,
        title="Memory (MiB)",
        description="Memory request and limit of the container. Nodes reserve some memory for themselves.",
        ge=4,
        le=MOST_MIB,
    )
    shared_memory_mib: int | None = Field(
        default=None,
        title="Shared Memory (MiB)",
        description="Size of /dev/shm, which data loaders use. It is part of the memory. Empty: 64 MiB.",
        ge=1,
        le=MOST_MIB,
    )
    ephemeral_storage_mib: int | None = Field(
        default=None,
        title="Ephemeral Storage (MiB)",
        description="Disk space for the job's logs and files. A pod that uses more is evicted.",
        ge=1,
        le=MOST_MIB,
    )
    schedule_within_s: int = Field(
        default=1800,
        title="Patience for a Node (Seconds)",
        description="Longest wait for a node, its driver and the image. After it, the job is cancelled.",
        ge=1,
        le=LONGEST_TIMEOUT_S,
    )
    ttl_s: int = Field(
        default=600,
        title="Time to Live (Seconds)",
        description="Time that an ended job stays in the cluster, so that the worker can read how it ended.",
        ge=60,
        le=LONGEST_TIMEOUT_S,
    )
    grace_s: int = Field(
        default=SPOT_GRACE_S,
        title="Grace (Seconds)",
        description=f"Time between SIGTERM and SIGKILL, at most {SPOT_GRACE_S} on a spot node.",
        ge=0,
        le=LONGEST_GRACE_S,
    )
    service_account: str | None = Field(
        default=None,
        title="Service Account",
        description="Grants the pod its cloud permissions. The pod gets no token for the cluster. Empty: default.",
        pattern=NAME,
    )
    priority: str | None = Field(
        default=None, title="Priority", description="Name of the pod's priority class.", pattern=NAME
    )
    run_as_user: int = Field(
        default=1000,
        title="User",
        description="User id of the container. Not root.",
        ge=1,
        le=2**31 - 1,
    )
    read_only_root: bool = Field(
        default=True,
        title="Read-only Root",
        description="Make the image's files read-only. /tmp and $HOME are empty and writable.",
    )
    prefect_api_key_secret: str | None = secret_field("PREFECT_API_KEY", *SECRET)
    prefect_api_auth_string_secret: str | None = secret_field("PREFECT_API_AUTH_STRING", *SECRET)
    prefect_client_custom_headers_secret: str | None = secret_field("PREFECT_CLIENT_CUSTOM_HEADERS", *SECRET)
    annotations: dict[str, str] = Field(
        default_factory=dict, title="Annotations", description="Annotations of the job and of its pod."
    )
    cluster_config: KubernetesClusterConfig | None = Field(
        default=None,
        title="Cluster Config",
        description="Block with a kubeconfig. Empty: the worker's own cluster or its KUBECONFIG.",
    )

    @property
    def choices(self) -> dict[Choice, str]:
        values: dict[Choice, str | None] = {
            "accelerator": self.accelerator,
            "driver_version": self.driver_version and self.driver_version.lower(),
            "spot": "true" if self.spot else None,
            "node_pool": self.node_pool,
        }
        return {choice: value for choice, value in values.items() if value}

    @property
    def secrets(self) -> dict[str, str | None]:
        """Return the secret, as name/key, of each variable that is never sent in plain text."""
        return {name: getattr(self, f"{name.lower()}_secret") for name in SECRETS}

    @property
    def deadline_s(self) -> int:
        return self.schedule_within_s + self.timeout_s
