"""Node pools, requested or existing."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from google.cloud import container_v1 as gke
from google.protobuf.duration_pb2 import Duration

SYSTEM = "system"
SYSTEM_MACHINE = "e2-standard-2"  # 2 vCPUs and 8 GB: for GKE's own pods, which have no place on GPU nodes
DEFAULT = "default"  # the API's name of Compute Engine's default service account
DISK_GB = 100  # GKE's default; GPU images with CUDA take some 10
# The least rights that GKE documents for nodes: pull images, write logs and metrics. Pods get
# the identity of their service account (GKE_METADATA), not this.
SCOPES = tuple(
    f"https://www.googleapis.com/auth/{name}"
    for name in ("devstorage.read_only", "logging.write", "monitoring")
)
Versions = gke.GPUDriverInstallationConfig.GPUDriverVersion


@dataclass(frozen=True, slots=True)
class GkePool:
    """A node pool.

    Attributes:
        accelerator: GKE's name of the GPU; empty for none.
        gpus: in one machine.
        driver: that GKE installs, `LATEST` or `DEFAULT`; empty for none.
        max_run_s: after which a node ends, with its pods; 0 for never.
        account: e-mail address; empty for Compute Engine's default.
        status: empty for a planned pool.
    """

    name: str
    machine: str
    accelerator: str = ""
    gpus: int = 0
    spot: bool = False
    min_nodes: int = 0
    max_nodes: int = 1
    driver: str = ""
    max_run_s: int = 0
    account: str = ""
    status: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)

    def differences(self, wished: "GkePool") -> Iterator[str]:
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(wished, each.name)
            if each.compare and mine != theirs:
                yield f"{each.name} is {mine or 'none'}, not {theirs or 'none'}"


def system_pool(account: str = "") -> GkePool:
    return GkePool(SYSTEM, SYSTEM_MACHINE, min_nodes=1, account=account)


def pool_name(accelerator: str, gpus: int, spot: bool) -> str:
    return accelerator + (f"-x{gpus}" if gpus > 1 else "") + ("-spot" if spot else "")


def pool_message(pool: GkePool, kept_by_gke: bool) -> gke.NodePool:
    """Return the pool in the API's form. The cluster decides about public addresses.

    With `kept_by_gke`, GKE repairs and upgrades the nodes, as a release channel demands; the cluster's
    maintenance exclusion postpones upgrades. Otherwise GKE leaves the machines alone.
    """
    # no measurement runs in the system pool, and every other pool depends on it
    repairs = kept_by_gke or pool.name == SYSTEM
    scaled = gke.NodePoolAutoscaling(
        enabled=True,
        total_min_node_count=pool.min_nodes,
        total_max_node_count=pool.max_nodes,
        location_policy=gke.NodePoolAutoscaling.LocationPolicy.ANY,
    )
    return gke.NodePool(
        name=pool.name,
        config=_node_config(pool),
        initial_node_count=pool.min_nodes,
        autoscaling=scaled if pool.accelerator else None,
        management=gke.NodeManagement(auto_repair=repairs, auto_upgrade=kept_by_gke),
    )


def _node_config(pool: GkePool) -> gke.NodeConfig:
    config = gke.NodeConfig(
        machine_type=pool.machine,
        disk_size_gb=DISK_GB,
        disk_type="pd-balanced",
        image_type="COS_CONTAINERD",  # the one for which GKE installs both drivers
        spot=pool.spot,
        service_account=pool.account,
        oauth_scopes=SCOPES,
        metadata={"disable-legacy-endpoints": "true"},
        workload_metadata_config=gke.WorkloadMetadataConfig(
            mode=gke.WorkloadMetadataConfig.Mode.GKE_METADATA
        ),
    )
    if pool.accelerator:
        driver = gke.GPUDriverInstallationConfig(gpu_driver_version=getattr(Versions, pool.driver))
        config.accelerators = [
            gke.AcceleratorConfig(
                accelerator_type=pool.accelerator,
                accelerator_count=pool.gpus,
                gpu_driver_installation_config=driver,
            )
        ]
        effect = gke.NodeTaint.Effect.NO_SCHEDULE  # only pods that request a GPU
        config.taints = [gke.NodeTaint(key="nvidia.com/gpu", value="present", effect=effect)]
    if pool.max_run_s:
        config.max_run_duration = Duration(seconds=pool.max_run_s)
    return config


def read_pool(message: gke.NodePool) -> GkePool:
    config, scaled = message.config, message.autoscaling
    accelerator = config.accelerators[0] if config.accelerators else gke.AcceleratorConfig()
    driver = accelerator.gpu_driver_installation_config.gpu_driver_version
    has_driver = driver in (Versions.LATEST, Versions.DEFAULT)
    fixed = message.initial_node_count
    most = scaled.total_max_node_count or scaled.max_node_count
    return GkePool(
        name=message.name,
        machine=config.machine_type,
        accelerator=accelerator.accelerator_type,
        gpus=accelerator.accelerator_count,
        spot=config.spot,
        min_nodes=(scaled.total_min_node_count or scaled.min_node_count) if scaled.enabled else fixed,
        max_nodes=most if scaled.enabled else fixed,
        driver=Versions(driver).name if has_driver else "",
        max_run_s=int(config.max_run_duration.total_seconds()) if config.max_run_duration else 0,
        account="" if config.service_account == DEFAULT else config.service_account,
        status=gke.NodePool.Status(message.status).name,
        reason=message.status_message
        or "; ".join(each.message for each in message.conditions if each.message),
    )
