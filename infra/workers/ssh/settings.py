"""How often the SSH worker polls, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ..base.settings import PollSettings


class SshSettings(PollSettings):
    """The worker's rates, from `SSH_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="SSH_WORKER_")

    flush_s: float = Field(
        default=2, gt=0, description="Seconds for which lines are gathered before they are sent."
    )
