import pytest
from google.cloud import container_v1 as gke

from infra.gke.accelerators import accelerators
from infra.gke.errors import GkeError
from infra.gke.pools import pool_message, read_pool
from infra.gke.settings import check, wished_pools
from tasks.planning.hardware import hardware_names, load_gpus, load_hardware
from tests.emulators.gke.quick import NAME, PARENT, quick_gke, up, wishes

Versions = gke.GPUDriverInstallationConfig.GPUDriverVersion


@pytest.fixture
def account(monkeypatch):
    with quick_gke(monkeypatch) as account:
        yield account


def pool_of(account, **more):
    up(wishes(**more))
    (request,) = account.called("CreateNodePool")
    assert request.parent == NAME
    return request.node_pool


def test_the_request_for_a_cluster_has_all_its_settings(account):
    up(wishes())
    (request,) = account.called("CreateCluster")
    asked = request.cluster
    assert request.parent == PARENT and asked.name == "gridbench"
    assert dict(asked.resource_labels) == {"managed-by": "gridbench"}
    assert asked.workload_identity_config.workload_pool == "my-project.svc.id.goog"
    assert asked.ip_allocation_policy.use_ip_aliases
    assert not asked.network and not asked.subnetwork
    components = asked.monitoring_config.component_config.enable_components
    assert list(components) == [gke.MonitoringComponentConfig.Component.SYSTEM_COMPONENTS]
    assert not asked.monitoring_config.managed_prometheus_config.enabled
    assert not asked.initial_node_count and not asked.autopilot.enabled and not asked.enable_kubernetes_alpha


def test_the_system_pool_is_one_small_node_without_a_gpu(account):
    up(wishes())
    (pool,) = account.called("CreateCluster")[0].cluster.node_pools
    assert (pool.name, pool.initial_node_count, pool.config.machine_type) == ("system", 1, "e2-standard-2")
    assert not pool.autoscaling.enabled and not pool.config.accelerators and not pool.config.taints
    assert not pool.config.spot
    assert pool.management.auto_repair  # a sick node would stay, and be billed


def test_a_gpu_pool_grows_from_nothing(account):
    pool = pool_of(account, max_nodes=3)
    scaled = pool.autoscaling
    assert (pool.name, pool.initial_node_count) == ("nvidia-l4", 0)
    assert scaled.enabled and (scaled.total_min_node_count, scaled.total_max_node_count) == (0, 3)
    assert (scaled.min_node_count, scaled.max_node_count) == (
        0,
        0,
    )  # those are by zone, and exclude the totals
    assert scaled.location_policy == gke.NodePoolAutoscaling.LocationPolicy.ANY


def test_a_gpu_pool_has_its_accelerator_and_gkes_driver(account):
    pool = pool_of(account)
    (found,) = pool.config.accelerators
    assert (found.accelerator_type, found.accelerator_count) == ("nvidia-l4", 1)
    assert found.gpu_driver_installation_config.gpu_driver_version == Versions.LATEST
    assert pool.config.machine_type == "g2-standard-8"
    (taint,) = pool.config.taints
    assert (taint.key, taint.value, taint.effect.name) == ("nvidia.com/gpu", "present", "NO_SCHEDULE")


def test_a_node_has_no_rights_to_lend(account):
    pool = pool_of(account)
    assert pool.config.workload_metadata_config.mode == gke.WorkloadMetadataConfig.Mode.GKE_METADATA
    assert dict(pool.config.metadata) == {"disable-legacy-endpoints": "true"}
    assert not any(scope.endswith("cloud-platform") for scope in pool.config.oauth_scopes)
    assert pool.config.oauth_scopes


def test_an_image_is_pulled_whole_before_anything_is_timed(account):
    assert not pool_of(account).config.gcfs_config.enabled  # else it streams in while imports are timed


@pytest.mark.parametrize("spot", [False, True])
def test_spot_and_on_demand_are_pools_of_their_own(account, spot):
    pool = pool_of(account, spot=spot)
    assert (pool.config.spot, pool.name) == (spot, "nvidia-l4-spot" if spot else "nvidia-l4")
    assert not pool.config.preemptible


@pytest.mark.parametrize(("hours", "seconds"), [(None, None), (1.5, 5400)])
def test_a_node_can_have_a_deadline(account, hours, seconds):
    pool = pool_of(account, max_run_hours=hours)
    assert ("max_run_duration" in pool.config) == bool(hours)
    if hours:
        assert pool.config.max_run_duration.total_seconds() == seconds


def test_another_driver_can_be_asked_for(account):
    (found,) = pool_of(account, driver="DEFAULT").config.accelerators
    assert found.gpu_driver_installation_config.gpu_driver_version == Versions.DEFAULT


HAD = [
    (name, gpus, shape.spot_only)
    for name, entry in accelerators().items()
    for gpus, shape in entry.shapes.items()
]


@pytest.mark.parametrize(("name", "gpus", "spot"), HAD)
def test_every_shape_makes_a_pool_and_is_read_back_as_it_was_asked(name, gpus, spot):
    (pool,) = wished_pools(wishes(f"{name}:{gpus}", spot=spot, max_nodes=2, max_run_hours=2))
    message = gke.NodePool.deserialize(gke.NodePool.serialize(pool_message(pool, kept_by_gke=True)))
    assert read_pool(message) == pool and not list(read_pool(message).differences(pool))
    assert len(pool.name) <= 40 and message.config.accelerators[0].accelerator_count == gpus


def test_every_accelerator_has_peaks_and_a_machine_or_a_reason():
    for name, entry in accelerators().items():
        assert entry.gpu in load_gpus(), name
        assert bool(entry.shapes) != bool(entry.unsupported), name


@pytest.mark.parametrize("name", [name for name in hardware_names() if name.startswith("gke-")])
def test_hardware_files_name_machines_that_up_makes(name):
    hardware = load_hardware(name)
    entry = accelerators()[hardware.job_variables["accelerator"]]
    assert bool(entry.unsupported) == bool(hardware.unsupported) and entry.gpu == hardware.gpu
    if not hardware.unsupported:
        shape = entry.shapes[hardware.gpus]
        assert shape.machine == hardware.instance_type
        assert hardware.job_variables.get("spot") or not shape.spot_only


def test_older_gpus_compare_on_the_same_host():
    hosts = {accelerators()[f"nvidia-tesla-{gpu}"].shapes[1].machine for gpu in ("t4", "p4", "p100", "v100")}
    assert hosts == {"n1-standard-8"}


@pytest.mark.parametrize(
    ("named", "spot", "sentence"),
    [
        ("nvidia-tesla-k80", False, "nvidia-tesla-k80 is unsupported: Google has retired it"),
        ("nvidia-h100-80gb", False, "add --spot, or --accelerator nvidia-h100-80gb:8"),
        ("nvidia-tesla-p4:2", False, "no machine has 2 of it; there are machines with 1"),
        ("nvidia-l44", False, "'nvidia-l44' is unknown; did you mean nvidia-l4?"),
        ("nvidia-l4:two", False, "the number of GPUs in one machine follows the colon, such as nvidia-l4:2"),
        ("nvidia-l4:0", True, "no machine has 0 of it"),
    ],
)
def test_an_unavailable_accelerator_is_refused_with_the_reason(named, spot, sentence):
    with pytest.raises(GkeError) as raised:
        wished_pools(wishes(named, spot=spot))
    assert sentence in str(raised.value)


def test_an_accelerator_is_named_once():
    with pytest.raises(GkeError, match="nvidia-l4:1 is named twice"):
        wished_pools(wishes("nvidia-l4", "nvidia-l4:1"))


@pytest.mark.parametrize("hours", [0, -1, float("nan"), float("inf"), 0.0001])
def test_an_invalid_deadline_is_refused(hours):
    with pytest.raises(GkeError, match="--max-run-hours is"):
        check(wishes(max_run_hours=hours))
