"""A Prefect worker that runs flows as Kubernetes jobs and watches them: `--type kubernetes-jobs`.

On top of prefect-kubernetes, whose own worker creates a job and does not look at it again.
"""

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect.workers.base import BaseWorker

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.log_lines import Lines
from infra.workers.base.retry import call_until_answered
from infra.workers.base.worker import FollowingWorker
from infra.workers.kubernetes.api import NamespaceApi, client_of
from infra.workers.kubernetes.configuration import (
    KubernetesJobsConfiguration,
    KubernetesJobsResult,
    KubernetesJobsVariables,
    job_name,
)
from infra.workers.kubernetes.errors import refusal, sentence
from infra.workers.kubernetes.follow import KubernetesFollow
from infra.workers.kubernetes.reasons import CONTAINER
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import View

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

LOGGER = "kubernetes.container"


class NamespaceClients:
    """What the worker has of one namespace of a cluster."""

    def __init__(self, api: NamespaceApi, view: View) -> None:
        self.api, self.view = api, view


class KubernetesJobsWorker(
    FollowingWorker,
    BaseWorker[KubernetesJobsConfiguration, KubernetesJobsVariables, KubernetesJobsResult],
):
    """Runs flow runs as Kubernetes jobs and follows them, those of an earlier worker too."""

    type = "kubernetes-jobs"
    thing = "Kubernetes job"
    job_configuration = KubernetesJobsConfiguration
    job_configuration_variables = KubernetesJobsVariables
    result_type = KubernetesJobsResult
    pace_type = KubernetesSettings
    pace: KubernetesSettings

    _description = (
        "Execute flow runs as Kubernetes jobs, on nodes with or without GPUs, and say how each ended and "
        "why. Requires a Kubernetes cluster."
    )
    _display_name = "Kubernetes jobs"
    _documentation_url = "https://docs.prefect.io/integrations/prefect-kubernetes"
    _logo_url = (
        "https://raw.githubusercontent.com/PrefectHQ/prefect/420d0d6a78bb6df1fc18bcf188fdad43c1d22ea9/"
        "assets/block-logos/kubernetes.png"
    )

    async def setup(self) -> None:
        """Start the worker, and look for jobs that an earlier one left."""
        self._desks: dict[tuple[str, str], NamespaceClients] = {}
        self._clients = AsyncExitStack()
        await super().setup()

    async def teardown(self, *exc_info: Any) -> None:
        """Stop; the jobs go on."""
        await super().teardown(*exc_info)
        await self._clients.aclose()

    async def start_job(self, flow_run: "FlowRun", configuration: KubernetesJobsConfiguration) -> str:
        """Create the job of this try, or find it, and note its id before anything else can go wrong."""
        number = await self.runs.try_number(flow_run.id)
        job = configuration.job(job_name(flow_run.id, number))
        desk = await self.desk(configuration)
        await desk.view.ready(self.pace.patience_s)  # nothing is started that can't be watched
        try:
            created = await desk.api.create(job)
        except Exception as error:
            raise refusal(error, "create jobs") from error
        desk.view.take(created)
        job_id = f"{configuration.namespace}:{created['metadata']['name']}"
        await call_until_answered(self.client.update_flow_run, flow_run.id, infrastructure_pid=job_id)
        return job_id

    async def find_job(self, run: "FlowRun", configuration: KubernetesJobsConfiguration) -> str | None:
        """The job that was created just before its worker went, so that its id was not noted."""
        name = job_name(run.id, await self.runs.try_number(run.id))
        desk = await self.desk(configuration)
        if await desk.api.find(name) is None:
            return None
        job_id = f"{configuration.namespace}:{name}"
        await call_until_answered(self.client.update_flow_run, run.id, infrastructure_pid=job_id)
        return job_id

    async def follow(
        self,
        flow_run: "FlowRun",
        job_id: str,
        configuration: KubernetesJobsConfiguration,
        *,
        resumed: bool = False,
    ) -> KubernetesJobsResult:
        """Follow a job, and put its run into the state that the job's end means."""
        desk = await self.desk(configuration)
        await desk.view.ready(self.pace.patience_s)
        log = self.get_flow_run_logger(flow_run)
        name = job_id.rpartition(":")[2]
        note = partial(self.runs.label, flow_run.id)
        follow = KubernetesFollow(
            flow_run, job_id, name, configuration, desk.api, desk.view, self.pace, log, note
        )
        self.follows[flow_run.id] = follow
        try:
            await self.stop_if_cancelled(follow)
            ending = await follow.to_the_end()
            if ending is None:
                return self.result(job_id, 0)  # another worker judges it
            await self._show_log(follow, desk.api)
            state = await self.runs.settle(flow_run.id, job_id, ending, own_command=configuration.own_command)
            if state:
                log.info("Kubernetes job %s has ended: %s", job_id, ending.message)
            self.settled.add(flow_run.id)
            return self.result(job_id, ending.status_code)
        finally:
            self.follows.pop(flow_run.id, None)

    async def _show_log(self, follow: KubernetesFollow, api: NamespaceApi) -> None:
        """Send what the container printed; the pod of a node that is gone has nothing more to tell."""
        if follow.pod is None or not follow.stages_s or follow.pod.get("gone"):
            return
        try:
            text = await api.log(follow.pod["metadata"]["name"], CONTAINER)
        except Exception as error:
            follow.log.warning(
                "The container's lines are not shown here: %s", sentence(error, "read pods' logs")
            )
            return
        lines = Lines(follow.run.id, self.client.create_logs, 0, LOGGER)
        lines.take(text)
        await lines.flush(last=True)

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: KubernetesJobsConfiguration, grace_seconds: int = 30
    ) -> None:
        """Delete a job with its pods.

        Raises:
            InfrastructureNotFound: there is no such job.
            InfrastructureNotAvailable: the cluster did not let us.
        """
        namespace, _, name = infrastructure_pid.rpartition(":")
        try:
            desk = await self.desk(configuration.model_copy(update={"namespace": namespace}))
            found = await desk.api.delete(name, grace_seconds)
        except Exception as error:
            raise InfrastructureNotAvailable(sentence(error, "delete jobs")) from error
        if not found:
            raise InfrastructureNotFound(f"There is no Kubernetes job {infrastructure_pid}.")

    async def desk(self, configuration: KubernetesJobsConfiguration) -> NamespaceClients:
        """What the worker has of a namespace.

        Raises:
            JobRefused: no cluster is known.
        """
        cluster = configuration.cluster_config
        key = (cluster.model_dump_json() if cluster else "", configuration.namespace)
        if key not in self._desks:
            try:
                client = await self._clients.enter_async_context(client_of(cluster))
            except Exception as error:
                raise JobRefused(sentence(error, "know a cluster")) from error
            view = View(client, configuration.namespace, self.pace, self.warn)
            self._desks[key] = NamespaceClients(
                NamespaceApi(client, configuration.namespace, self.pace.patience_s), view
            )
            self.start_loop(view.run)
        return self._desks[key]
