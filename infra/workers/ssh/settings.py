"""The settings of the SSH worker."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ..base.settings import PollSettings


class SshSettings(PollSettings):
    """Read from `SSH_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="SSH_WORKER_")

    flush_s: float = Field(default=2, gt=0, description="Seconds between two uploads of log lines.")
