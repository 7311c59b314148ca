"""How often a worker polls, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import BaseSettings


class PollSettings(BaseSettings):
    """The rates that all workers have; each reads them under a prefix of its own."""

    poll_s: float = Field(
        default=5, gt=0, description="Seconds between polls for changes and for cancelled runs."
    )

    @property
    def takeover_s(self) -> float:
        """Return the seconds between searches for runs that no worker follows."""
        return self.poll_s * 3
