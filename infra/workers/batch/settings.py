"""How often the AWS Batch worker asks, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

SLOWEST = 6  # polls this many times slower for a job whose status has not changed for long


class BatchSettings(BaseSettings):
    """The worker's rates, from `AWS_BATCH_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="AWS_BATCH_WORKER_")

    poll_s: float = Field(
        default=5, gt=0, description="Seconds between looks at jobs that have just changed."
    )
    log_calls_per_s: float = Field(
        default=5, gt=0, le=25, description="GetLogEvents calls a second, for all jobs; AWS bears 10 to 25."
    )
    diagnose_s: float = Field(
        default=300, ge=0, description="Seconds in RUNNABLE without a reason before the queue is looked at."
    )
    doubt_s: float = Field(
        default=600, ge=0, description="Seconds until a misfit that AWS sees and no number shows is believed."
    )
    patience_s: float = Field(
        default=900, ge=0, description="Seconds that a submission goes on trying while AWS does not answer."
    )

    @property
    def slowest_s(self) -> float:
        """Seconds between looks at a job that has been running for long."""
        return self.poll_s * SLOWEST

    @property
    def takeover_s(self) -> float:
        """Seconds between looks for runs that no worker follows."""
        return self.poll_s * 3
