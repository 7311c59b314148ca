"""How patient the Kubernetes worker is, in seconds; environment variables change it."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from infra.workers.base.settings import PollSettings


class KubernetesSettings(PollSettings):
    """The worker's rates, from `KUBERNETES_JOBS_WORKER_POLL_S` and so on; a watch brings changes."""

    model_config = SettingsConfigDict(env_prefix="KUBERNETES_JOBS_WORKER_")

    watch_s: int = Field(
        default=300, gt=0, description="Seconds after which a watch is opened anew where it ended."
    )
    silent_s: float = Field(
        default=150, gt=0, description="Seconds without a byte after which a watch counts as cut."
    )
    pull_s: float = Field(
        default=120,
        ge=0,
        description="Seconds that pulling an image may fail until the job is given up.",
    )
    explain_s: float = Field(
        default=20, ge=0, description="Seconds that a pod may wait until its events are read."
    )
    late_s: float = Field(
        default=3, ge=0, description="Seconds by which a pod's end may come after its job's."
    )
    patience_s: float = Field(
        default=900, ge=0, description="Seconds for which a submission is retried while the API is away."
    )
