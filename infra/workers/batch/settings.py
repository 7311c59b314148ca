"""The settings of the AWS Batch worker."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ..base.settings import SubmissionSettings

SLOWEST = 6  # factor on the interval for a job whose status has not changed for long


class BatchSettings(SubmissionSettings):
    """Read from `AWS_BATCH_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="AWS_BATCH_WORKER_")

    log_calls_per_s: float = Field(
        default=5, gt=0, le=25, description="GetLogEvents calls per second for all jobs. AWS allows 10 to 25."
    )
    diagnose_s: float = Field(
        default=300,
        ge=0,
        description="Seconds in RUNNABLE without a reason after which the worker examines the queue.",
    )
    doubt_s: float = Field(
        default=600,
        ge=0,
        description="Seconds after which a job is cancelled if AWS reports a misfit without numbers.",
    )

    @property
    def slowest_s(self) -> float:
        return self.poll_s * SLOWEST
