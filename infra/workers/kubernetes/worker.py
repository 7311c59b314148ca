"""A Prefect worker that runs flows as Kubernetes jobs and watches them: `--type kubernetes-jobs`.

It extends prefect-kubernetes, whose own worker creates a job and does not watch it.
"""

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.retry import call_until_answered
from infra.workers.base.worker import FollowingWorker
from infra.workers.kubernetes.api import NamespaceApi
from infra.workers.kubernetes.configuration import (
    KubernetesJobsConfiguration,
    KubernetesJobsResult,
    KubernetesJobsVariables,
    job_name,
)
from infra.workers.kubernetes.errors import refusal, sentence
from infra.workers.kubernetes.follow import KubernetesFollow
from infra.workers.kubernetes.login import client_of
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import View

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun


class NamespaceClients(NamedTuple):
    """The calls and the view of one namespace, and their clean-up."""

    api: NamespaceApi
    view: View
    exits: AsyncExitStack


class KubernetesJobsWorker(
    FollowingWorker[KubernetesJobsConfiguration, KubernetesJobsVariables, KubernetesJobsResult]
):
    """Runs flow runs as Kubernetes jobs and follows them."""

    type = "kubernetes-jobs"
    thing = "Kubernetes job"
    job_configuration = KubernetesJobsConfiguration
    job_configuration_variables = KubernetesJobsVariables
    result_type = KubernetesJobsResult
    settings_type = KubernetesSettings
    settings: KubernetesSettings
    explained_within_s = 30.0

    _description = (
        "Execute flow runs as Kubernetes jobs, on nodes with or without GPUs, and report how each ended. "
        "This requires a Kubernetes cluster."
    )
    _display_name = "Kubernetes jobs"
    _documentation_url = "https://docs.prefect.io/integrations/prefect-kubernetes"
    _logo_url = (
        "https://raw.githubusercontent.com/PrefectHQ/prefect/420d0d6a78bb6df1fc18bcf188fdad43c1d22ea9/"
        "assets/block-logos/kubernetes.png"
    )

    async def setup(self) -> None:
        self._namespaces: dict[tuple[str, str], NamespaceClients] = {}
        await super().setup()

    async def teardown(self, *exc_info: Any) -> None:
        await super().teardown(*exc_info)
        for clients in self._namespaces.values():
            await clients.exits.aclose()

    async def start_job(self, flow_run: "FlowRun", configuration: KubernetesJobsConfiguration) -> str:
        number = await self.runs.try_number(flow_run.id)
        job = configuration.job(job_name(flow_run.id, number))
        clients = await self.watched(configuration)  # start nothing that can't be watched
        try:
            created = await clients.api.create(job)
        except Exception as error:
            raise refusal(error, "create jobs") from error
        clients.view.take(created)
        job_id = f"{configuration.namespace}:{created['metadata']['name']}"
        await call_until_answered(self.client.update_flow_run, flow_run.id, infrastructure_pid=job_id)
        return job_id

    async def find_job(self, flow_run: "FlowRun", configuration: KubernetesJobsConfiguration) -> str | None:
        name = job_name(flow_run.id, await self.runs.try_number(flow_run.id))
        clients = await self.clients(configuration)
        if await clients.api.find(name) is None:
            return None
        job_id = f"{configuration.namespace}:{name}"
        await call_until_answered(self.client.update_flow_run, flow_run.id, infrastructure_pid=job_id)
        return job_id

    async def follower(
        self, flow_run: "FlowRun", job_id: str, configuration: KubernetesJobsConfiguration, resumed: bool
    ) -> KubernetesFollow:
        clients = await self.watched(configuration)
        return KubernetesFollow(
            run=flow_run,
            job_id=job_id,
            log=self.get_flow_run_logger(flow_run),
            set_labels=partial(self.runs.label, flow_run.id),
            name=job_id.rpartition(":")[2],
            configuration=configuration,
            api=clients.api,
            view=clients.view,
            settings=self.settings,
            send=self.client.create_logs,
        )

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: KubernetesJobsConfiguration, grace_seconds: int = 30
    ) -> None:
        """Delete a job with its pods.

        `InfrastructureNotFound` if it does not exist, `InfrastructureNotAvailable` if the cluster refused.
        """
        namespace, _, name = infrastructure_pid.rpartition(":")
        try:
            clients = await self.clients(configuration.model_copy(update={"namespace": namespace}))
            existed = await clients.api.delete(name, grace_seconds)
        except Exception as error:
            raise InfrastructureNotAvailable(sentence(error, "delete jobs")) from error
        if not existed:
            raise InfrastructureNotFound(f"Kubernetes job {infrastructure_pid} does not exist.")

    async def watched(self, configuration: KubernetesJobsConfiguration) -> NamespaceClients:
        """Return a namespace's clients once all its jobs are known; drop one that can't be watched.

        `JobRefused` if the worker lacks a right, or the API does not answer.
        """
        clients = await self.clients(configuration)
        try:
            await clients.view.ready(self.settings.patience_s)
        except JobRefused:
            if self._namespaces.get(key := _key(configuration)) is clients:
                del self._namespaces[key]
                await clients.exits.aclose()
            raise
        return clients

    async def clients(self, configuration: KubernetesJobsConfiguration) -> NamespaceClients:
        key = _key(configuration)
        if key not in self._namespaces:
            exits = AsyncExitStack()
            try:
                client = await exits.enter_async_context(client_of(configuration.cluster_config))
            except Exception as error:
                raise JobRefused(sentence(error, "know a cluster")) from error
            view = View(client, configuration.namespace, self.settings, self.warn)
            api = NamespaceApi(client, configuration.namespace, self.settings.patience_s)
            self._namespaces[key] = NamespaceClients(api, view, exits)
            exits.callback(self.start_loop(view.run).cancel)
        return self._namespaces[key]


def _key(configuration: KubernetesJobsConfiguration) -> tuple[str, str]:
    cluster = configuration.cluster_config
    return (cluster.model_dump_json() if cluster else "", configuration.namespace)
