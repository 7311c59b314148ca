"""What a flow run asks of AWS Batch: the form's fields, and the checks that need no AWS."""

from typing import Any, Self

from prefect.workers.base import BaseVariables, BaseWorkerResult
from prefect_aws import AwsCredentials
from pydantic import BaseModel, Field, model_validator

from ..base.environment import SECRETS, credential_fault
from ..base.job_configuration import LONGEST_TIMEOUT_S, ContainerJobConfiguration

# never in a job's environment, which everybody who may describe jobs can read
SECRET_SETTINGS = {name: f"{name.lower()}_secret_arn" for name in SECRETS}
DEFINITION_ONLY = (
    "image",
    "shared_memory_mib",
    "job_role_arn",
    "execution_role_arn",
    "log_group",
    *SECRET_SETTINGS.values(),
)


class BatchJobFields(BaseModel):
    """The fields that job variables and job configuration share."""

    aws_credentials: AwsCredentials | None = Field(
        default=None,
        title="AWS Credentials",
        description="Block with the keys or the role of the account whose queue takes the jobs. Empty: the "
        "worker's own, as AWS's client finds them.",
    )
    region: str | None = Field(
        default=None,
        title="Region",
        description="AWS region, such as us-east-1. Empty: that of the credentials, or the worker's own.",
        pattern=r"^[a-z]{2}(-[a-z]+)+-\d$",
    )
    job_queue: str | None = Field(
        default=None, title="Job Queue", description="Name or ARN of the queue that takes the jobs."
    )
    job_definition: str | None = Field(
        default=None,
        title="Job Definition",
        description="An existing one: name, name:revision or ARN. Empty: one is registered for the image.",
    )
    image: str | None = Field(
        default=None,
        title="Image",
        description="Container image with Prefect and the flow's packages, best pinned by its digest.",
    )
    vcpus: int | None = Field(
        default=None,
        title="vCPUs",
        description="vCPUs of the container; 1 where nothing says more.",
        ge=1,
        le=10_000,
    )
    memory_mib: int | None = Field(
        default=None,
        title="Memory (MiB)",
        description="Memory of the container; 2048 where nothing says more. Leave the host 8 % of its own.",
        ge=4,
    )
    gpus: int = Field(default=0, title="GPUs", description="GPUs of the container, alone for it.", ge=0)
    shared_memory_mib: int | None = Field(
        default=None,
        title="Shared Memory (MiB)",
        description="Size of /dev/shm, which data loaders use. Docker's own default is 64 MiB.",
        ge=1,
    )
    timeout_s: int = Field(
        default=14400,
        title="Timeout (Seconds)",
        description="Batch stops an attempt after so long. It is always set: nothing runs for ever.",
        ge=60,
        le=LONGEST_TIMEOUT_S,
    )
    attempts: int = Field(
        default=1,
        title="Attempts",
        description="How often Batch itself may start the job when its host is reclaimed. All are billed.",
        ge=1,
        le=10,
    )
    capacity_deadline_s: int = Field(
        default=3600,
        title="Capacity Deadline (Seconds)",
        description="How long the job may wait in RUNNABLE for a machine before it is given up.",
        ge=1,
    )
    job_role_arn: str | None = Field(
        default=None,
        title="Job Role ARN",
        description="Role of the code in the container: what the flow may do in AWS.",
        pattern=r"^arn:[\w-]+:iam::\d{12}:role/.+$",
    )
    execution_role_arn: str | None = Field(
        default=None,
        title="Execution Role ARN",
        description="Role with which Batch pulls the image and reads secrets.",
        pattern=r"^arn:[\w-]+:iam::\d{12}:role/.+$",
    )
    log_group: str | None = Field(
        default=None,
        title="Log Group",
        description="CloudWatch log group of the container's lines. Empty: Batch's own, /aws/batch/job.",
    )
    tags: dict[str, str] = Field(
        default_factory=dict, title="Tags", description="Tags of the job and of what bills for it."
    )
    prefect_api_key_secret_arn: str | None = Field(
        default=None,
        title="Prefect API Key Secret ARN",
        description="Secret that holds PREFECT_API_KEY. Needed where the worker has one.",
        pattern=r"^arn:",
    )
    prefect_api_auth_string_secret_arn: str | None = Field(
        default=None,
        title="Prefect API Auth String Secret ARN",
        description="Secret that holds PREFECT_API_AUTH_STRING. Needed where the worker has one.",
        pattern=r"^arn:",
    )
    prefect_client_custom_headers_secret_arn: str | None = Field(
        default=None,
        title="Prefect Client Custom Headers Secret ARN",
        description="Secret that holds PREFECT_CLIENT_CUSTOM_HEADERS. Needed where the worker has them.",
        pattern=r"^arn:",
    )


class AwsBatchVariables(BatchJobFields, BaseVariables):
    """The form of an `aws-batch` work pool, a deployment and a run."""

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the form as a schema in which a reference to a block is not the fields of one as well.

        Prefect's server takes either and refuses what is both; every field of these credentials is optional.
        """
        schema = super().model_json_schema(*args, **options)
        schema["definitions"]["AwsCredentials"]["additionalProperties"] = False
        return schema


class AwsBatchWorkerResult(BaseWorkerResult):
    """The end of a job: its id, and the container's exit code, or -1 where there is none."""


class AwsBatchJobConfiguration(BatchJobFields, ContainerJobConfiguration):
    """One flow run's job, ready to be submitted."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.job_queue:
            raise ValueError("job_queue is not set: name the queue that takes the jobs.")
        if self.job_definition:
            self._refuse_changes()
        elif not self.image:
            raise ValueError("image is not set: name an image, or a job_definition that has one.")
        elif self.secrets and not self.execution_role_arn:
            raise ValueError("execution_role_arn is not set: Batch needs a role to read the secret with.")
        for name in self.tags:
            if name.lower().startswith("aws:") or not name:
                raise ValueError(f"tags has {name!r}: such a tag is empty or AWS's own.")
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
        """ARN of a secret, for each environment variable that is filled from one."""
        fields = SECRET_SETTINGS.items()
        return {name: arn for name, field in fields if (arn := getattr(self, field)) is not None}
