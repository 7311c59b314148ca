"""Preparation of GKE for runs."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from gridbench.machines.cloud import Cloud
from gridbench.setup import image, steps
from gridbench.setup.prefect_api import PrefectApi
from gridbench.terminal import say
from infra.gke import rights
from infra.gke.api import EVERYWHERE, GkeLocation
from infra.gke.kubeconfig import HINT, PLUGIN
from infra.gke.settings import ClusterOptions, wished_pools
from infra.workers.kubernetes.pool import base_job_template, read_pool
from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS, hardware_names, load_hardware

POOL, KIND = "gke", "kubernetes-jobs"  # the pool of the hardware files, and the type of its worker
FLAVOURS = ("cuda12",)  # it has kernels for every accelerator that GKE has
SECRETS = {"key": "prefect_api_key_secret", "auth": "prefect_api_auth_string_secret"}


def make_ready(
    cloud: Cloud,
    location: GkeLocation,
    options: ClusterOptions,
    images: Sequence[str],
    repository: str | None,
    kubeconfig: Path,
    up_cluster: Callable[[], None],
) -> None:
    """Create the missing parts for runs on GKE; it can be repeated.

    `repository` is by default in the project's Artifact Registry. `up_cluster` asks first, and writes
    `kubeconfig`.
    """
    published = image.published_images(images)
    api, note = steps.begin(cloud, options.cluster, POOL, KIND)
    if not shutil.which(PLUGIN):
        raise GridbenchError(f"{PLUGIN} is not installed, and the worker needs it: {HINT}; or --cluster-only")
    steps.settle(cloud, note, place_of(location))
    target = (repository or default_repository(location)).removesuffix("/")
    image.forget_elsewhere(note, target)
    cluster = "the cluster: its cost is shown below; you are asked before it is made"
    rights_step = f"namespace {rights.NAMESPACE}, rights, a secret with the Prefect API's credentials: 0 USD"
    image_step = steps.image_step(FLAVOURS, published, note, target)
    steps.show_steps(cloud, api, note, [cluster, rights_step, image_step])
    if repository is None and note.images.keys() != {*FLAVOURS}:
        region = location.zone.rpartition("-")[0]
        say(
            "Note: the repository must be there: `gcloud artifacts repositories create gridbench "
            f"--repository-format docker --location {region} --project {location.project}`, once."
        )
    up_cluster()
    with steps.told_on_stop(cloud, lambda: f"cluster {options.cluster} is there and billed"):
        note.environment = {"KUBECONFIG": str(kubeconfig.absolute())}
        note.write()
        rights.apply(kubeconfig, secret_of(api))
        say(f"namespace {rights.NAMESPACE}, the worker's rights and the jobs' secret: {rights.ROLE.name}")
        image.ensure_pushed(FLAVOURS, target, published, note, say)
        steps.finish(api, note, template_of(api))
    say(f"\nready{_next_command(options)}")


def _next_command(options: ClusterOptions) -> str:
    pools = {(pool.accelerator, pool.gpus, pool.spot) for pool in wished_pools(options)}
    files = [load_hardware(name) for name in hardware_names(DEPLOYMENTS) if name.startswith("gke-")]
    names = [
        file.name
        for file in files
        if tuple(file.job_variables.get(key, False) for key in ("accelerator", "gpus", "spot")) in pools
    ]
    if names:
        return f": gridbench run quick {' '.join(f'--on {name}' for name in names[:2])}"
    return ", but no file of deployments/hardware is for one of these pools: copy gke-l4.yaml for it"


def place_of(location: GkeLocation) -> str:
    project = f"project {location.project}"
    return project if location.zone == EVERYWHERE else f"zone {location.zone} of {project}"


def default_repository(location: GkeLocation) -> str:
    return f"{location.zone.rpartition('-')[0]}-docker.pkg.dev/{location.project}/gridbench/lane"


def secret_of(api: PrefectApi) -> dict[str, str]:
    return {name: value for name, value in (("key", api.key), ("auth", api.auth_string)) if value}


def template_of(api: PrefectApi) -> dict[str, object]:
    settings = {SECRETS[name]: f"{rights.SECRET}/{name}" for name in secret_of(api)}
    return base_job_template(read_pool(DEPLOYMENTS / "pools" / f"{POOL}.yaml"), settings)
