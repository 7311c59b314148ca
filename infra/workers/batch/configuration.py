"""The configuration of an AWS Batch job."""

from typing import Any, Self

from prefect.workers.base import BaseWorkerResult
from prefect_aws import AwsCredentials
from pydantic import Field, model_validator

from ..base.environment import SECRETS, credential_fault
from ..base.fields import MOST_CPUS, MOST_GPUS, MOST_MIB, FormVariables, JobFields, secret_field
from ..base.job_configuration import LONGEST_TIMEOUT_S, ContainerJobConfiguration

# never in a job's environment, which everyone who can describe jobs can read
SECRET_SETTINGS = {name: f"{name.lower()}_secret_arn" for name in SECRETS}
SECRET = ("Secret ARN", r"^arn:")
DEFINITION_ONLY = (
    "image",
    "shared_memory_mib",
    "job_role_arn",
    "execution_role_arn",
    "log_group",
    *SECRET_SETTINGS.values(),
)


class BatchJobFields(JobFields):
    """The fields that job variables and job configuration share."""

    aws_credentials: AwsCredentials | None = Field(
        default=None,
        title="AWS Credentials",
        description="Block with the keys or the role of the AWS account that owns the queue. Empty: the "
        "worker's own credentials, as AWS's client finds them.",
    )
    region: str | None = Field(
        default=None,
        title="Region",
        description="AWS region, such as us-east-1. Empty: the region of the credentials or of the worker.",
        pattern=r"^[a-z]{2}(-[a-z]+)+-\d$",
    )
    job_queue: str | None = Field(
        default=None, title="Job Queue", description="Name or ARN of the job queue."
    )
    job_definition: str | None = Field(
        default=None,
        title="Job Definition",
        description="Existing definition: name, name:revision or ARN. Empty: the worker registers one for the image.",
    )
    vcpus: int | None = Field(
        default=None,
        title="vCPUs",
        description="vCPUs of the container. Empty: as in the job definition, otherwise 1.",
        ge=1,
        le=MOST_CPUS,
    )
    memory_mib: int | None = Field(
        default=None,
        title="Memory (MiB)",
        description="Memory of the container, at most 92 % of the host's. Empty: as in the definition, or 2048.",
        ge=4,
        le=MOST_MIB,
    )
    gpus: int = Field(
        default=0,
        title="GPUs",
        description="Number of GPUs, used by this container only.",
        ge=0,
        le=MOST_GPUS,
    )
    timeout_s: int = Field(
        default=14400,
        title="Timeout (Seconds)",
        description="Batch stops an attempt after this time. Every job has a time limit.",
        ge=60,
        le=LONGEST_TIMEOUT_S,
    )
    attempts: int = Field(
        default=1,
        title="Attempts",
        description="Maximum number of starts by Batch if hosts are reclaimed. Every attempt is billed.",
        ge=1,
        le=10,
    )
    capacity_deadline_s: int = Field(
        default=3600,
        title="Capacity Deadline (Seconds)",
        description="Longest wait in RUNNABLE for a machine. After it, the job is cancelled.",
        ge=1,
        le=LONGEST_TIMEOUT_S,
    )
    job_role_arn: str | None = Field(
        default=None,
        title="Job Role ARN",
        description="Role of the code in the container: it grants the flow's permissions in AWS.",
        pattern=r"^arn:[\w-]+:iam::\d{12}:role/.+$",
    )
    execution_role_arn: str | None = Field(
        default=None,
        title="Execution Role ARN",
        description="Role that Batch uses to pull the image and to read secrets.",
        pattern=r"^arn:[\w-]+:iam::\d{12}:role/.+$",
    )
    log_group: str | None = Field(
        default=None,
        title="Log Group",
        description="CloudWatch log group for the container's output. Empty: Batch's default, /aws/batch/job.",
    )
    tags: dict[str, str] = Field(
        default_factory=dict,
        title="Tags",
        description="Tags of the job and of the resources that are billed for it.",
    )
    prefect_api_key_secret_arn: str | None = secret_field("PREFECT_API_KEY", *SECRET)
    prefect_api_auth_string_secret_arn: str | None = secret_field("PREFECT_API_AUTH_STRING", *SECRET)
    prefect_client_custom_headers_secret_arn: str | None = secret_field(
        "PREFECT_CLIENT_CUSTOM_HEADERS", *SECRET
    )


class AwsBatchVariables(BatchJobFields, FormVariables):
    """The form of an `aws-batch` work pool, a deployment and a run."""

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Keep a block's reference from matching the block's fields too.

        Prefect's server refuses a value that matches both; every field of these credentials is optional.
        """
        schema = super().model_json_schema(*args, **options)
        schema["definitions"]["AwsCredentials"]["additionalProperties"] = False
        return schema


class AwsBatchWorkerResult(BaseWorkerResult):
    """The end of a job; exit code -1 if there is none."""


class AwsBatchJobConfiguration(BatchJobFields, ContainerJobConfiguration):
    """One flow run's job."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.job_queue:
            raise ValueError("job_queue is not set: name the queue that takes the jobs.")
        if self.job_definition:
            self._refuse_changes()
        elif not self.image:
            raise ValueError("image is not set: name an image or a job_definition that has one.")
        elif self.secrets and not self.execution_role_arn:
            raise ValueError("execution_role_arn is not set: Batch needs a role to read the secret.")
        for name in self.tags:
            if name.lower().startswith("aws:") or not name:
                raise ValueError(f"tags has {name!r}: a tag must not be empty or start with aws:.")
        for name in self.env:
            if name.startswith("AWS_BATCH"):
                raise ValueError(f"env sets {name}: names that start with AWS_BATCH belong to Batch.")
        if fault := credential_fault(self.env):
            raise ValueError(fault)
        return self

    def _refuse_changes(self) -> None:
        for name in DEFINITION_ONLY:
            if (value := getattr(self, name)) is not None:
                raise ValueError(
                    f"{name} {value} can't be changed for the existing job_definition {self.job_definition}:"
                    " set it there, or leave job_definition empty."
                )

    @property
    def secrets(self) -> dict[str, str]:
        """Return the secrets' ARNs by environment variable."""
        fields = SECRET_SETTINGS.items()
        return {name: arn for name, field in fields if (arn := getattr(self, field)) is not None}
