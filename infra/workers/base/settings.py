"""The settings that workers share, read from environment variables."""

from pydantic import Field
from pydantic_settings import BaseSettings


class PollSettings(BaseSettings):
    """The settings that all workers have; each worker reads them under its own prefix."""

    poll_s: float = Field(
        default=5, gt=0, description="Seconds between polls for changes and for cancelled runs."
    )

    @property
    def takeover_s(self) -> float:
        """Return the seconds between searches for runs that no worker follows."""
        return self.poll_s * 3


class SubmissionSettings(PollSettings):
    """The settings of a worker whose submissions can be retried."""

    patience_s: float = Field(
        default=900, ge=0, description="Seconds for which a failed submission is retried."
    )
