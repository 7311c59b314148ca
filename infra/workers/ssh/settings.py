"""How often the SSH worker looks, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SshSettings(BaseSettings):
    """The worker's rates, from `SSH_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="SSH_WORKER_")

    poll_s: float = Field(default=5, gt=0, description="Seconds between looks at a box that is busy or away.")
    flush_s: float = Field(
        default=2, gt=0, description="Seconds that lines are gathered before they are sent."
    )

    @property
    def takeover_s(self) -> float:
        """Seconds between looks for runs that no worker follows."""
        return self.poll_s * 3
