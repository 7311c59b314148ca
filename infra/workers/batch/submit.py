"""Submission without duplicates."""

import time
from collections.abc import Callable
from typing import Any

import anyio

from ..base.environment import secrets
from ..base.job_configuration import JobRefused
from .configuration import AwsBatchJobConfiguration
from .errors import sentence, worth_another_try
from .reasons import Job
from .region import RegionCalls
from .request import job_definition, job_name, name_prefix, submission

LONGEST_WAIT_S = 30


class Submitter:
    """Submits the jobs of one region."""

    def __init__(self, region: RegionCalls, patience_s: float) -> None:
        """`patience_s` is the longest time of a submission while AWS does not answer."""
        self._region, self._patience_s = region, patience_s
        self._arns: dict[str, str] = {}  # name of a definition → its ARN
        self._registering = anyio.Lock()

    async def find(self, queue: str, run_id: object, attempt: int) -> str | None:
        """Return the id of the job of a flow run's try, ended or not."""
        prefix = name_prefix(run_id, attempt)
        filters = [{"name": "JOB_NAME", "values": [f"{prefix}*"]}]
        answer = await self._region.retry(
            "batch", "list_jobs", self._patience_s, jobQueue=queue, filters=filters
        )
        jobs = [job for job in answer["jobSummaryList"] if job["jobName"].startswith(prefix)]
        return str(min(jobs, key=lambda job: job.get("createdAt", 0))["jobId"]) if jobs else None

    async def submit(
        self,
        configuration: AwsBatchJobConfiguration,
        run_id: object,
        attempt: int,
        title: str,
        note: Callable[[str], None],
    ) -> str:
        """Submit a try of a flow run, unless it has a job; return the job's id.

        SubmitJob has no idempotency token: after a lost answer the job is searched. `JobRefused` if AWS
        refused, or did not answer in time.
        """
        queue = configuration.job_queue or ""
        deadline, pause_s = time.monotonic() + self._patience_s, 0.5
        while True:
            if job_id := await self.find(queue, run_id, attempt):
                note(f"AWS Batch already has this run's job: {job_id}.")
                return job_id
            definition, secret = await self.definition(configuration)
            request = submission(configuration, job_name(run_id, attempt, title), definition, secret)
            try:
                return str((await self._region.call("batch", "submit_job", **request))["jobId"])
            except Exception as error:
                why = sentence(error, "batch:SubmitJob")
                if "definition" in str(error).lower() and self._arns.pop(self._name_of(configuration), ""):
                    continue  # another program deregistered it: once more with a fresh one
                if not worth_another_try(error) or time.monotonic() > deadline:
                    raise JobRefused(why) from error
                note(f"{why} Trying again.")
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_WAIT_S)

    async def definition(self, configuration: AwsBatchJobConfiguration) -> tuple[str, set[str]]:
        """Return the definition, and the variables that it fills from secrets."""
        if configuration.job_definition:
            return configuration.job_definition, await self._secrets_of(configuration)
        request = job_definition(configuration)
        name = request["jobDefinitionName"]
        async with self._registering:
            if name not in self._arns:
                self._arns[name] = await self._register(request)
        return self._arns[name], set(configuration.secrets)

    async def _register(self, request: dict[str, Any]) -> str:
        answer = await self._region.retry(
            "batch",
            "describe_job_definitions",
            self._patience_s,
            jobDefinitionName=request["jobDefinitionName"],
            status="ACTIVE",
        )
        if definitions := answer["jobDefinitions"]:
            return str(max(definitions, key=lambda entry: entry["revision"])["jobDefinitionArn"])
        made = await self._region.retry("batch", "register_job_definition", self._patience_s, **request)
        return str(made["jobDefinitionArn"])

    async def _secrets_of(self, configuration: AwsBatchJobConfiguration) -> set[str]:
        if not secrets(configuration.env):
            return set()
        definition = str(configuration.job_definition)
        by_name = not definition.startswith("arn:") and ":" not in definition
        selection = {"jobDefinitionName": definition} if by_name else {"jobDefinitions": [definition]}
        answer = await self._region.retry(
            "batch", "describe_job_definitions", self._patience_s, status="ACTIVE", **selection
        )
        if not answer["jobDefinitions"]:
            raise JobRefused(f"job_definition {definition} has no active revision.")
        newest = max(answer["jobDefinitions"], key=lambda entry: entry["revision"])
        return {entry["name"] for entry in newest.get("containerProperties", {}).get("secrets", [])}

    @staticmethod
    def _name_of(configuration: AwsBatchJobConfiguration) -> str:
        return "" if configuration.job_definition else job_definition(configuration)["jobDefinitionName"]


async def describe(region: RegionCalls, job_ids: list[str]) -> list[Job]:
    """Describe up to 100 jobs with one call, without their large environments."""
    jobs: list[Job] = (await region.call("batch", "describe_jobs", jobs=job_ids))["jobs"]
    for job in jobs:
        job.get("container", {}).pop("environment", None)
        job.pop("tags", None)
    return jobs
