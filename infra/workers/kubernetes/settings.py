"""The settings of the Kubernetes worker."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from infra.workers.base.settings import SubmissionSettings


class KubernetesSettings(SubmissionSettings):
    """Read from `KUBERNETES_JOBS_WORKER_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="KUBERNETES_JOBS_WORKER_")

    watch_s: int = Field(default=300, gt=0, description="Seconds after which a watch is opened again.")
    silent_s: float = Field(
        default=150, gt=0, description="Seconds without data after which a watch counts as disconnected."
    )
    pull_s: float = Field(
        default=120, ge=0, description="Seconds of failed image pulls after which the job is cancelled."
    )
    explain_s: float = Field(
        default=20, ge=0, description="Seconds of waiting after which a pod's events are read."
    )
    late_s: float = Field(
        default=3, ge=0, description="Longest delay in seconds between the end of a job and of its pod."
    )
