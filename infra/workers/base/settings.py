"""The settings that workers share."""

from prefect.settings import get_current_settings
from pydantic import Field
from pydantic_settings import BaseSettings

# Between searches for new runs: Prefect's own 10 s would dominate the time until a job's first result.
QUERY_S = 2.0


class PollSettings(BaseSettings):
    """Read from environment variables, by each worker under its own prefix."""

    poll_s: float = Field(
        default=5, gt=0, description="Seconds between polls for changes and for cancelled runs."
    )

    @property
    def takeover_s(self) -> float:
        return self.poll_s * 3


class SubmissionSettings(PollSettings):
    """The settings of a worker whose submissions can be retried."""

    patience_s: float = Field(
        default=900, ge=0, description="Seconds for which a failed submission is retried."
    )


def query_s() -> float:
    """Return the seconds between searches for runs.

    Prefect Cloud limits requests per minute: https://docs.prefect.io/v3/concepts/rate-limits
    """
    settings = get_current_settings()
    is_cloud = (settings.api.url or "").startswith(settings.cloud.api_url)
    chosen = "query_seconds" in settings.worker.model_fields_set
    return settings.worker.query_seconds if chosen or is_cloud else QUERY_S
