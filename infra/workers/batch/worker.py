"""A Prefect worker that runs flows as AWS Batch jobs: `prefect work-pool create NAME --type aws-batch`."""

from functools import partial
from typing import TYPE_CHECKING

from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect_aws import AwsCredentials

from ..base.job_configuration import JobRefused
from ..base.retry import call_until_answered
from ..base.worker import FollowingWorker
from .configuration import AwsBatchJobConfiguration, AwsBatchVariables, AwsBatchWorkerResult
from .follow import BatchFollow
from .logs import LogReader, Tail, last_line
from .poller import Poller
from .reasons import TERMINAL
from .region import RegionCalls
from .settings import BatchSettings
from .submit import Submitter, describe

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

__all__ = ["AwsBatchJobConfiguration", "AwsBatchVariables", "AwsBatchWorker", "AwsBatchWorkerResult"]


class RegionClients:
    """The clients of one region in one account."""

    def __init__(self, worker: "AwsBatchWorker", region: RegionCalls) -> None:
        settings, warn = worker.settings, worker.warn
        self.region = region
        self.submitter = Submitter(self.region, settings.patience_s)
        self.poller = Poller(partial(describe, self.region), settings.poll_s, settings.slowest_s, warn=warn)
        self.reader = LogReader(
            self.region.call,
            worker.client.create_logs,
            settings.log_calls_per_s,
            settings.poll_s / 2,
            settings.slowest_s,
            warn,
        )


class AwsBatchWorker(FollowingWorker[AwsBatchJobConfiguration, AwsBatchVariables, AwsBatchWorkerResult]):
    """Runs flow runs as AWS Batch jobs and follows them."""

    type = "aws-batch"
    thing = "AWS Batch job"
    job_configuration = AwsBatchJobConfiguration
    job_configuration_variables = AwsBatchVariables
    result_type = AwsBatchWorkerResult
    settings_type = BatchSettings
    settings: BatchSettings
    explained_within_s = 180.0  # AWS reports a reclaimed host minutes after the end

    _description = (
        "Execute flow runs as AWS Batch jobs, on EC2 instances with or without GPUs. "
        "This requires an AWS account."
    )
    _display_name = "AWS Batch"
    _documentation_url = "https://docs.aws.amazon.com/batch/latest/userguide/what-is-batch.html"
    _logo_url = "https://cdn.sanity.io/images/3ugk85nk/production/d74b16fe84ce626345adf235a47008fea2869a60-225x225.png"

    async def setup(self) -> None:
        self._regions: dict[tuple[AwsCredentials | None, str | None], RegionClients] = {}
        await super().setup()

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: AwsBatchJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Terminate a job; AWS always gives its container 30 seconds between SIGTERM and SIGKILL.

        `InfrastructureNotFound` if it has ended, `InfrastructureNotAvailable` if AWS refused or did not
        answer.
        """
        region, patience_s = self.clients(configuration).region, self.settings.patience_s
        try:
            answer = await region.retry("batch", "describe_jobs", patience_s, jobs=[infrastructure_pid])
            if not answer["jobs"] or answer["jobs"][0]["status"] in TERMINAL:
                raise InfrastructureNotFound(f"AWS Batch has no unfinished job {infrastructure_pid}.")
            reason = "Cancelled: Terminated from Prefect."
            await region.retry("batch", "terminate_job", patience_s, jobId=infrastructure_pid, reason=reason)
        except JobRefused as refusal:
            raise InfrastructureNotAvailable(str(refusal)) from refusal

    async def start_job(self, flow_run: "FlowRun", configuration: AwsBatchJobConfiguration) -> str:
        log = self.get_flow_run_logger(flow_run)
        number = await self.runs.try_number(flow_run.id)
        title = configuration.name or flow_run.name
        submitter = self.clients(configuration).submitter
        job_id = await submitter.submit(configuration, flow_run.id, number, title, log.info)
        await call_until_answered(self.client.update_flow_run, flow_run.id, infrastructure_pid=job_id)
        return job_id

    async def find_job(self, flow_run: "FlowRun", configuration: AwsBatchJobConfiguration) -> str | None:
        number = await self.runs.try_number(flow_run.id)
        submitter = self.clients(configuration).submitter
        job_id = await submitter.find(configuration.job_queue or "", flow_run.id, number)
        if job_id:
            await call_until_answered(self.client.update_flow_run, flow_run.id, infrastructure_pid=job_id)
        return job_id

    async def follower(
        self, flow_run: "FlowRun", job_id: str, configuration: AwsBatchJobConfiguration, resumed: bool
    ) -> BatchFollow:
        """Return the follower; a resumed log continues after its last line in Prefect."""
        clients = self.clients(configuration)
        return BatchFollow(
            run=flow_run,
            job_id=job_id,
            log=self.get_flow_run_logger(flow_run),
            set_labels=partial(self.runs.label, flow_run.id),
            configuration=configuration,
            region=clients.region,
            poller=clients.poller,
            reader=clients.reader,
            tail=Tail(flow_run.id, partial(last_line, self.client, flow_run.id) if resumed else None),
            settings=self.settings,
        )

    def clients(self, configuration: AwsBatchJobConfiguration) -> RegionClients:
        credentials, region = configuration.aws_credentials, configuration.region
        if (key := (credentials, region)) not in self._regions:
            self._regions[key] = made = RegionClients(self, RegionCalls(region, credentials))
            self.start_loop(made.poller.run)
            self.start_loop(made.reader.run)
        return self._regions[key]
