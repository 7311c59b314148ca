"""Correct moto's Batch: its jobs, and API answers that differ from AWS's.

`install` accepts only moto 5.2.5, whose internals this patches.
"""

import json
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import moto
from moto.batch import models, responses

from . import describe, iam, reasons
from .control import control
from .job import Job, asked

MOTO_VERSION = "5.2.5"
MOST_IDS = 100  # [doc] botocore's DescribeJobs
# [doc] botocore's ListJobs, maxResults: 1000 by status, 100 with a filter
PAGE, PAGE_FILTERED = 1000, 100


def client_error(text: str) -> Exception:
    return models.ClientException(text)


def submitjob(original: Callable) -> Callable:
    """moto drops retryStrategy, allows any timeout and reserved names. [doc] botocore's SubmitJob, KeyValuePair."""

    @wraps(original)
    def mended(self: Any) -> str:
        request = json.loads(self.body)
        if request.get("arrayProperties") or request.get("dependsOn"):
            raise client_error(reasons.NO_ARRAYS)
        check_timeout(request.get("timeout"))
        for entry in (request.get("containerOverrides") or {}).get("environment") or []:
            if entry["name"].startswith("AWS_BATCH"):
                raise client_error(reasons.RESERVED_VARIABLE.format(name=entry["name"]))
        token = asked.set(request)
        try:
            return original(self)
        finally:
            asked.reset(token)

    return mended


def check_timeout(timeout: dict[str, int] | None) -> None:
    """[doc] botocore's JobTimeout: at least 60 seconds."""
    if timeout and int(timeout["attemptDurationSeconds"]) < control.least_timeout_s:
        raise client_error(reasons.TIMEOUT_TOO_SHORT.format(least_s=control.least_timeout_s))


def registerjobdefinition(original: Callable) -> Callable:
    """moto allows any timeout. [doc] botocore's JobTimeout."""

    @wraps(original)
    def mended(self: Any) -> str:
        check_timeout(self._get_param("timeout"))
        return original(self)

    return mended


def describejobs(original: Callable) -> Callable:
    """moto takes any number of ids; AWS takes 1 to 100 and briefly omits a fresh job.

    [doc] botocore's DescribeJobs: up to 100. [thread] Netflix/metaflow #160: DescribeJobs is sometimes empty
    right after SubmitJob.
    """

    @wraps(original)
    def mended(self: Any) -> str:
        wanted = self._get_param("jobs") or []
        if not 1 <= len(wanted) <= MOST_IDS:
            raise client_error(reasons.TOO_MANY_IDS)
        known = self.batch_backend._jobs
        jobs = [known[name] for name in (arn.split("/")[-1] for arn in wanted) if name in known]
        return json.dumps({"jobs": [describe.detail(job) for job in jobs if seen(job)]})

    return mended


def seen(job: Job) -> bool:
    job.polls_until_seen -= 1
    return job.polls_until_seen < 0


def listjobs(original: Callable) -> Callable:
    """moto lists all states and no pages. [doc] botocore's ListJobs."""

    @wraps(original)
    def mended(self: Any) -> str:
        filters = self._get_param("filters")
        state = None if filters else self._get_param("jobStatus") or "RUNNING"
        queue = self._get_param("jobQueue")
        told = [describe.summary(job) for job in self.batch_backend.list_jobs(queue, None, None, filters)]
        told = [entry for entry in told if state is None or entry["status"] == state]
        told.sort(key=lambda entry: entry["createdAt"], reverse=True)
        most = PAGE_FILTERED if filters else PAGE
        size = min(int(self._get_param("maxResults") or most), most)
        start = int(self._get_param("nextToken") or 0)
        page: dict[str, Any] = {"jobSummaryList": told[start : start + size]}
        if start + size < len(told):
            page["nextToken"] = str(start + size)
        return json.dumps(page)

    return mended


def createjobqueue(original: Callable) -> Callable:
    """moto drops jobStateTimeLimitActions. [doc] botocore's CreateJobQueue."""

    @wraps(original)
    def mended(self: Any) -> str:
        answer = original(self)
        arn = json.loads(answer)["jobQueueArn"]
        self.batch_backend._job_queues[arn].time_limits = self._get_param("jobStateTimeLimitActions") or []
        return answer

    return mended


def updatejobqueue(original: Callable) -> Callable:
    """moto drops jobStateTimeLimitActions. [doc] botocore's UpdateJobQueue."""

    @wraps(original)
    def mended(self: Any) -> str:
        answer = original(self)
        if (limits := self._get_param("jobStateTimeLimitActions")) is not None:
            self.batch_backend._job_queues[json.loads(answer)["jobQueueArn"]].time_limits = limits
        return answer

    return mended


def updatecomputeenvironment(original: Callable) -> Callable:
    """moto drops the new compute resources. [doc] botocore's UpdateComputeEnvironment."""

    @wraps(original)
    def mended(self: Any) -> str:
        answer = original(self)
        environment = self.batch_backend._compute_environments[json.loads(answer)["computeEnvironmentArn"]]
        environment.compute_resources |= self._get_param("computeResources") or {}
        control.notify()
        return answer

    return mended


def deletejobqueue(original: Callable) -> Callable:
    """[doc] botocore's DeleteJobQueue: disabled first; its jobs are terminated."""

    @wraps(original)
    def mended(self: Any) -> str:
        queue = self.batch_backend.get_job_queue(self._get_param("jobQueue"))
        if queue and queue.state != "DISABLED":
            raise client_error(reasons.QUEUE_ENABLED)
        for job in queue.jobs if queue else []:
            job.terminate("The job queue was deleted")
        return original(self)

    return mended


def deletecomputeenvironment(original: Callable) -> Callable:
    """[doc] botocore's DeleteComputeEnvironment: disabled, and in no queue."""

    @wraps(original)
    def mended(self: Any) -> str:
        backend = self.batch_backend
        environment = backend.get_compute_environment(self._get_param("computeEnvironment"))
        if environment and environment.state != "DISABLED":
            raise client_error(reasons.ENVIRONMENT_ENABLED)
        if environment and any(environment in queue.environments for queue in backend._job_queues.values()):
            raise client_error(reasons.ENVIRONMENT_IN_USE)
        return original(self)

    return mended


def create_compute_environment(original: Callable) -> Callable:
    """moto requires a service role; AWS defaults to its service-linked role.

    [doc] docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles.html
    """

    @wraps(original)
    def mended(self: Any, *, service_role: str | None, state: str | None, **options: Any) -> Any:
        return original(
            self,
            service_role=service_role or linked_role(self.iam_backend),
            state=state or "ENABLED",
            **options,
        )

    return mended


def linked_role(backend: Any) -> str:
    """Return the service-linked role's ARN; create the role on first use."""
    arn = iam.linked_role(backend, "batch")
    return arn or backend.create_service_linked_role("batch.amazonaws.com", "", "").arn


def queue_describe(original: Callable) -> Callable:
    @wraps(original)
    def mended(self: Any) -> dict[str, Any]:
        told = original(self)
        if limits := getattr(self, "time_limits", None):
            told["jobStateTimeLimitActions"] = limits
        return told

    return mended


ANSWERS = (
    submitjob,
    registerjobdefinition,
    describejobs,
    listjobs,
    createjobqueue,
    updatejobqueue,
    updatecomputeenvironment,
    deletejobqueue,
    deletecomputeenvironment,
)


def install() -> None:
    if moto.__version__ != MOTO_VERSION:
        raise RuntimeError(f"tests/emulators mends moto {MOTO_VERSION} from within; found {moto.__version__}")
    if models.Job is Job:
        return
    iam.install()
    models.Job = Job
    models.JOB_NAME_REGEX = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")  # [doc] botocore
    for mend in ANSWERS:
        name = mend.__name__
        setattr(responses.BatchResponse, name, mend(getattr(responses.BatchResponse, name)))
    backend = models.BatchBackend
    backend.create_compute_environment = create_compute_environment(backend.create_compute_environment)
    models.JobQueue.describe = queue_describe(models.JobQueue.describe)
