"""How patient the Kubernetes worker is, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class KubernetesSettings(BaseSettings):
    """The worker's rates, from `KUBERNETES_JOBS_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="KUBERNETES_JOBS_WORKER_")

    poll_s: float = Field(
        default=5,
        gt=0,
        description="Seconds between looks at the clock and for cancelled runs; changes come by themselves.",
    )
    watch_s: int = Field(
        default=300, gt=0, description="Seconds after which a watch is opened anew where it was left."
    )
    silent_s: float = Field(
        default=150, gt=0, description="Seconds without a byte after which a watch counts as cut."
    )
    pull_s: float = Field(
        default=120, ge=0, description="Seconds that an image may fail to come before the job is given up."
    )
    explain_s: float = Field(
        default=20, ge=0, description="Seconds that a pod may wait before the events are asked why."
    )
    late_s: float = Field(
        default=3, ge=0, description="Seconds that a pod's own end may come after that of its job."
    )
    patience_s: float = Field(
        default=900, ge=0, description="Seconds that a submission goes on trying while the API is away."
    )

    @property
    def takeover_s(self) -> float:
        """Seconds between looks for runs that no worker follows."""
        return self.poll_s * 3
