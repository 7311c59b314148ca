"""How often the AWS Batch worker calls AWS, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ..base.settings import PollSettings

SLOWEST = 6  # polls this many times slower for a job whose status has not changed for long


class BatchSettings(PollSettings):
    """The worker's rates, from `AWS_BATCH_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="AWS_BATCH_WORKER_")

    log_calls_per_s: float = Field(
        default=5, gt=0, le=25, description="GetLogEvents calls a second for all jobs; AWS allows 10 to 25."
    )
    diagnose_s: float = Field(
        default=300, ge=0, description="Seconds in RUNNABLE without a reason until the queue is examined."
    )
    doubt_s: float = Field(
        default=600,
        ge=0,
        description="Seconds until a misfit which AWS reports is believed without a number.",
    )
    patience_s: float = Field(
        default=900, ge=0, description="Seconds for which a submission is retried while AWS does not answer."
    )

    @property
    def slowest_s(self) -> float:
        """Return the seconds between polls of a job that has been running for long."""
        return self.poll_s * SLOWEST
