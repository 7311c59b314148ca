"""A Prefect worker that runs flows as AWS Batch jobs: `prefect work-pool create NAME --type aws-batch`."""

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect.workers.base import BaseWorker

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.retry import call_until_answered
from infra.workers.base.worker import FollowingWorker
from infra.workers.batch.configuration import (
    AwsBatchJobConfiguration,
    AwsBatchVariables,
    AwsBatchWorkerResult,
)
from infra.workers.batch.follow import BatchFollow
from infra.workers.batch.logs import LogReader, Tail, last_line
from infra.workers.batch.poller import Poller
from infra.workers.batch.reasons import TERMINAL
from infra.workers.batch.region import RegionCalls
from infra.workers.batch.settings import BatchSettings
from infra.workers.batch.submit import Submitter, describe

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

__all__ = ["AwsBatchJobConfiguration", "AwsBatchVariables", "AwsBatchWorker", "AwsBatchWorkerResult"]

LATE_LINES_S = 2  # CloudWatch shows a container's last lines about so long after its end


class RegionClients:
    """What the worker has of one region: its clients, the submitter, the poller and the log reader."""

    def __init__(self, worker: "AwsBatchWorker", name: str | None) -> None:
        pace, warn = worker.pace, worker.warn
        self.region = RegionCalls(name)
        self.submitter = Submitter(self.region, pace.patience_s)
        self.poller = Poller(partial(describe, self.region), pace.poll_s, pace.slowest_s, warn=warn)
        self.reader = LogReader(
            self.region.call,
            worker.client.create_logs,
            pace.log_calls_per_s,
            pace.poll_s / 2,
            pace.slowest_s,
            warn,
        )


class AwsBatchWorker(
    FollowingWorker, BaseWorker[AwsBatchJobConfiguration, AwsBatchVariables, AwsBatchWorkerResult]
):
    """Submits flow runs to AWS Batch and follows their jobs, those of an earlier worker too."""

    type = "aws-batch"
    thing = "AWS Batch job"
    job_configuration = AwsBatchJobConfiguration
    job_configuration_variables = AwsBatchVariables
    result_type = AwsBatchWorkerResult
    pace_type = BatchSettings
    pace: BatchSettings

    _description = (
        "Execute flow runs as AWS Batch jobs, on EC2 instances with or without GPUs. Requires an AWS account."
    )
    _display_name = "AWS Batch"
    _documentation_url = "https://docs.aws.amazon.com/batch/latest/userguide/what-is-batch.html"
    _logo_url = "https://cdn.sanity.io/images/3ugk85nk/production/d74b16fe84ce626345adf235a47008fea2869a60-225x225.png"

    async def setup(self) -> None:
        """Start the worker, and look for jobs that an earlier one left."""
        self._desks: dict[str | None, RegionClients] = {}
        await super().setup()

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: AwsBatchJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Terminate a job; AWS gives its container 30 seconds between SIGTERM and SIGKILL, whatever is asked.

        Raises:
            InfrastructureNotFound: there is no such job, or it has ended.
            InfrastructureNotAvailable: AWS did not let us.
        """
        region, patience_s = self.desk(configuration.region).region, self.pace.patience_s
        try:
            found = await region.retry("batch", "describe_jobs", patience_s, jobs=[infrastructure_pid])
            if not found["jobs"] or found["jobs"][0]["status"] in TERMINAL:
                raise InfrastructureNotFound(f"AWS Batch has no job {infrastructure_pid} that has not ended.")
            why = "Cancelled: Terminated from Prefect."
            await region.retry("batch", "terminate_job", patience_s, jobId=infrastructure_pid, reason=why)
        except JobRefused as refusal:
            raise InfrastructureNotAvailable(str(refusal)) from refusal

    async def start_job(self, flow_run: "FlowRun", configuration: AwsBatchJobConfiguration) -> str:
        """Find or submit the job of this try, and note its id before anything else can go wrong."""
        log = self.get_flow_run_logger(flow_run)
        number = await self.runs.try_number(flow_run.id)
        title = configuration.name or flow_run.name
        submitter = self.desk(configuration.region).submitter
        job_id = await submitter.submit(configuration, flow_run.id, number, title, log.info)
        await call_until_answered(self.client.update_flow_run, flow_run.id, infrastructure_pid=job_id)
        return job_id

    async def find_job(self, run: "FlowRun", configuration: AwsBatchJobConfiguration) -> str | None:
        """The job that was submitted just before its worker went, so that its id was not noted."""
        number = await self.runs.try_number(run.id)
        submitter = self.desk(configuration.region).submitter
        job_id = await submitter.find(configuration.job_queue or "", run.id, number)
        if job_id:
            await call_until_answered(self.client.update_flow_run, run.id, infrastructure_pid=job_id)
        return job_id

    async def follow(
        self,
        flow_run: "FlowRun",
        job_id: str,
        configuration: AwsBatchJobConfiguration,
        *,
        resumed: bool = False,
    ) -> AwsBatchWorkerResult:
        """Follow a job, and put its run into the state that the job's end means."""
        desk = self.desk(configuration.region)
        tail = Tail(flow_run.id, partial(self._last_line, flow_run.id, resumed))
        log = self.get_flow_run_logger(flow_run)
        note = partial(self.runs.label, flow_run.id)
        follow = BatchFollow(
            flow_run, job_id, configuration, desk.region, desk.poller, tail, self.pace, log, note
        )
        self.follows[flow_run.id] = follow
        desk.reader.follow(tail)
        try:
            await self.stop_if_cancelled(follow)
            ending = await follow.to_the_end()
            if ending is None:
                return self.result(job_id, 0)  # another worker judges it
            state = await self.runs.settle(flow_run.id, job_id, ending, own_command=configuration.own_command)
            if state:
                log.info("AWS Batch job %s has ended: %s", job_id, ending.message)
            self.settled.add(flow_run.id)
            await desk.reader.finish(tail, max(self.pace.poll_s, LATE_LINES_S))
            if tail.closed:
                log.warning("The container's lines are not shown here: %s", tail.closed)
            return self.result(job_id, ending.status_code)
        finally:
            desk.reader.leave(tail)
            self.follows.pop(flow_run.id, None)

    async def _last_line(self, run_id: UUID, resumed: bool, stream: str) -> tuple[int, int] | None:
        return await last_line(self.client, run_id, stream) if resumed else None

    def desk(self, region: str | None) -> RegionClients:
        """What the worker has of a region."""
        if region not in self._desks:
            self._desks[region] = RegionClients(self, region)
            self.start_loop(self._desks[region].poller.run)
            self.start_loop(self._desks[region].reader.run)
        return self._desks[region]
