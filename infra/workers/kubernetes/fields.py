"""The form of a `kubernetes-jobs` work pool: its fields and their limits."""

from typing import Annotated, Literal, Self

from prefect_kubernetes.credentials import KubernetesClusterConfig
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from infra.workers.base.environment import SECRETS
from infra.workers.base.job_configuration import LONGEST_TIMEOUT_S

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names and …/labels
LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
PREFIX = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?"
LabelKey = Annotated[str, StringConstraints(pattern=f"^{PREFIX}{LABEL}")]
LabelValue = Annotated[str, StringConstraints(pattern=f"^{LABEL}")]
SECRET = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_.]+$"
# For pods that are not the system's: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
SPOT_GRACE_S = 15
Choice = Literal["accelerator", "driver_version", "spot", "node_pool"]


class Toleration(BaseModel):
    """A taint of nodes that a pod may run on in spite of it, in Kubernetes' own words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError(f"value {self.value!r} with operator Exists: leave it out, or take Equal")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("no key with operator Equal: name the taint's key, or take Exists for all")
        return self


class KubernetesJobFields(BaseModel):
    """The fields that job variables and job configuration share."""

    namespace: str = Field(
        default="default", title="Namespace", description="Where the jobs run.", pattern=NAME, max_length=63
    )
    image: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None,
        title="Image",
        description="Image with Prefect and the flow's packages, best pinned by its digest.",
    )
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", title="Image Pull Policy", description="When a node fetches the image."
    )
    image_pull_secrets: list[Name] = Field(
        default_factory=list,
        title="Image Pull Secrets",
        description="Secrets of the namespace with logins to registries; none where the nodes have a right.",
    )
    accelerator: LabelValue | None = Field(
        default=None,
        title="Accelerator",
        description="Model of the GPUs as the nodes' label names it, such as nvidia-l4. Empty: any.",
    )
    gpus: int = Field(default=0, title="GPUs", description="GPUs of the container, alone for it.", ge=0)
    driver_version: Literal["DEFAULT", "LATEST"] | None = Field(
        default=None,
        title="Driver Version",
        description="Only nodes with this choice of NVIDIA driver. Empty: whatever the nodes have.",
    )
    spot: bool = Field(default=False, title="Spot", description="Only nodes that may be taken away.")
    node_pool: LabelValue | None = Field(
        default=None, title="Node Pool", description="Only nodes of this pool. Empty: of any."
    )
    node_labels: dict[Choice, LabelKey] = Field(
        default_factory=dict,
        title="Node Labels",
        description="Which label of a node tells its accelerator, driver_version, spot or node_pool.",
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, title="Node Selector", description="Further labels that the node must have."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        title="Tolerations",
        description="Further taints to tolerate, beside those of GPUs and of spot nodes.",
    )
    vcpus: float = Field(
        default=1.0,
        title="vCPUs",
        description="CPUs of the container, requested and limited alike. Nodes keep some of theirs.",
        ge=0.001,
        le=10_000,
    )
    memory_mib: int = Field(
        default=2048,
        title="Memory (MiB)",
        description="Memory of the container, requested and limited alike. Nodes keep some of theirs.",
        ge=4,
    )
    shared_memory_mib: int | None = Field(
        default=None,
        title="Shared Memory (MiB)",
        description="Size of /dev/shm, which data loaders use; it is part of the memory. Else 64 MiB.",
        ge=1,
    )
    ephemeral_storage_mib: int | None = Field(
        default=None,
        title="Ephemeral Storage (MiB)",
        description="Disk for logs and files that the job writes; a pod that takes more is evicted.",
        ge=1,
    )
    timeout_s: int = Field(
        default=14400,
        title="Timeout (Seconds)",
        description="How long the job may run. It is always set: nothing runs for ever.",
        ge=10,
        le=LONGEST_TIMEOUT_S,
    )
    schedule_within_s: int = Field(
        default=1800,
        title="Patience for a Node (Seconds)",
        description="How long the pod may wait until it starts: for a node, its driver and the image.",
        ge=1,
    )
    ttl_s: int = Field(
        default=600,
        title="Time to Live (Seconds)",
        description="How long an ended job stays in the cluster, so that its end can be told.",
        ge=60,
    )
    grace_s: int = Field(
        default=SPOT_GRACE_S,
        title="Grace (Seconds)",
        description=f"From SIGTERM to SIGKILL. A spot node leaves {SPOT_GRACE_S}.",
        ge=0,
    )
    service_account: str | None = Field(
        default=None,
        title="Service Account",
        description="Whose rights the pod has in the cloud; it gets no token for the cluster. Else default.",
        pattern=NAME,
    )
    priority: str | None = Field(
        default=None, title="Priority", description="Name of a priority class.", pattern=NAME
    )
    run_as_user: int = Field(
        default=1000, title="User", description="Whom the container runs as; never root.", ge=1, le=2**31 - 1
    )
    read_only_root: bool = Field(
        default=True,
        title="Read-only Root",
        description="The image's files can't be changed; /tmp and $HOME are empty and can be written.",
    )
    prefect_api_key_secret: str | None = Field(
        default=None,
        title="Prefect API Key Secret",
        description="Secret with PREFECT_API_KEY, as name/key. Needed where the worker has one.",
        pattern=SECRET,
    )
    prefect_api_auth_string_secret: str | None = Field(
        default=None,
        title="Prefect API Auth String Secret",
        description="Secret with PREFECT_API_AUTH_STRING, as name/key. Needed where the worker has one.",
        pattern=SECRET,
    )
    prefect_client_custom_headers_secret: str | None = Field(
        default=None,
        title="Prefect Client Custom Headers Secret",
        description="Secret with PREFECT_CLIENT_CUSTOM_HEADERS, as name/key. Needed where there are any.",
        pattern=SECRET,
    )
    annotations: dict[str, str] = Field(
        default_factory=dict, title="Annotations", description="Annotations of the job and of its pod."
    )
    cluster_config: KubernetesClusterConfig | None = Field(
        default=None,
        title="Cluster Config",
        description="Block with a kubeconfig. Empty: the worker's own cluster, or its KUBECONFIG.",
    )

    @property
    def choices(self) -> dict[Choice, str]:
        """Return what the node must be, as the value of its label."""
        values: dict[Choice, str | None] = {
            "accelerator": self.accelerator,
            "driver_version": self.driver_version and self.driver_version.lower(),
            "spot": "true" if self.spot else None,
            "node_pool": self.node_pool,
        }
        return {choice: value for choice, value in values.items() if value}

    @property
    def secrets(self) -> dict[str, str | None]:
        """Return the secret, as name/key, of each environment variable that is never sent in plain text."""
        return {name: getattr(self, f"{name.lower()}_secret") for name in SECRETS}

    @property
    def deadline_s(self) -> int:
        """Return the seconds after its creation in which the Job may wait and run."""
        return self.schedule_within_s + self.timeout_s
