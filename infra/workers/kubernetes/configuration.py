"""The configuration of a Kubernetes job."""

from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from prefect.workers.base import BaseWorkerResult
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration
from pydantic import Field, model_validator

from infra.workers.base.environment import credential_fault
from infra.workers.base.fields import FormVariables, env_name_fault
from infra.workers.base.job_configuration import ContainerJobConfiguration
from infra.workers.kubernetes.fields import SPOT_GRACE_S, KubernetesJobFields
from infra.workers.kubernetes.manifest import SIGTERM_BEHAVIOUR, WRITABLE_HOME, filled, frame

if TYPE_CHECKING:
    from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse

# Fields of a Job or its pod by which a lane would be measured twice, with their only correct values.
RUNS_ONCE = {
    "backoffLimit": (0, "a failed job would run again"),
    "parallelism": (1, "several pods would measure the same side by side"),
    "completions": (1, "the same would be measured several times"),
    "completionMode": ("NonIndexed", "it would count pods by an index"),
    "suspend": (False, "the job would never start"),
    "restartPolicy": ("Never", "the container would run again"),
}
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
NOT_OF_OURS = {
    *("podFailurePolicy", "successPolicy", "podReplacementPolicy", "backoffLimitPerIndex"),
    *("maxFailedIndexes", "managedBy", "manualSelector", "selector"),
}


class KubernetesJobsVariables(KubernetesJobFields, FormVariables):
    """The form of a `kubernetes-jobs` work pool, a deployment and a run."""


class KubernetesJobsResult(BaseWorkerResult):
    """The end of a job; exit code -1 if there is none."""


class KubernetesJobsConfiguration(
    KubernetesJobFields,
    ContainerJobConfiguration,
    KubernetesWorkerJobConfiguration,  # type: ignore[misc]
):
    """One flow run's Job."""

    env: dict[str, str | None] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.image:
            raise ValueError("image is not set: name the image that has the flow's packages.")
        if (self.shared_memory_mib or 0) >= self.memory_mib:
            raise ValueError(
                f"shared_memory_mib is {self.shared_memory_mib}: it is part of memory_mib, so it "
                f"must be less than {self.memory_mib}."
            )
        if self.spot and self.grace_s > SPOT_GRACE_S:
            raise ValueError(f"grace_s is {self.grace_s}: a spot node allows at most {SPOT_GRACE_S} seconds.")
        if self.accelerator and not self.gpus:
            raise ValueError(f"gpus is 0 but accelerator is {self.accelerator}: set gpus to 1 or more.")
        if fault := second_run_fault(self.job_manifest):
            raise ValueError(fault)
        self._refuse_nodes()
        self._refuse_env()
        return self

    def _refuse_nodes(self) -> None:
        for choice in self.choices:
            label = self.node_labels.get(choice)
            if not label:
                raise ValueError(
                    f"{choice} is {getattr(self, choice)} but node_labels does not name its label: "
                    "add the label to node_labels, or use node_selector."
                )
            if label in self.node_selector:
                raise ValueError(
                    f"node_selector has {label}: {choice} sets the same label; use only one of them."
                )

    def _refuse_env(self) -> None:
        if fault := env_name_fault(self.env) or credential_fault(self.env):
            raise ValueError(fault)
        if self.env.get(SIGTERM_BEHAVIOUR, "crash") != "crash":
            raise ValueError(
                f"env sets {SIGTERM_BEHAVIOUR} to {self.env[SIGTERM_BEHAVIOUR]}: it must be crash, or a run "
                "that loses its pod would run again."
            )

    @classmethod
    def json_template(cls) -> dict[str, Any]:
        template = super().json_template()
        fields = KubernetesJobsVariables.model_fields
        return {name: text for name, text in template.items() if name in fields} | {"job_manifest": frame()}

    def prepare_for_flow_run(
        self,
        flow_run: "FlowRun",
        deployment: "DeploymentResponse | None" = None,
        flow: "Flow | None" = None,
        work_pool: "WorkPool | None" = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Fill in the run's values; `job` then contains the Job."""
        self.env.setdefault(SIGTERM_BEHAVIOUR, "crash")
        if self.read_only_root:
            self.env.setdefault("HOME", WRITABLE_HOME)
        container = self.job_manifest["spec"]["template"]["spec"]["containers"][0]
        own = container.pop("env", None) or []
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id=worker_id)
        # Prefect's variables are in `env`, without those that stay on the worker's machine.
        container["env"] = own if isinstance(own, list) else []

    def job(self, name: str) -> dict[str, Any]:
        """Return the Job, without fields unknown to Kubernetes; `JobRefused` for a secret in plain text."""
        return filled(self, name, self.job_manifest, self.env, self.command)


def second_run_fault(manifest: dict[str, Any]) -> str | None:
    spec = manifest.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    for name, (right, otherwise) in RUNS_ONCE.items():
        for given in (spec.get(name), pod.get(name)):
            if given is not None and given != right:
                return f"job_manifest sets {name} to {given}: it must be {right}, or {otherwise}."
    if others := sorted(NOT_OF_OURS & spec.keys()):
        return f"job_manifest sets {others[0]}: leave it out, because a job has one pod, and the worker follows it."
    return None


def job_name(run_id: UUID, number: int) -> str:
    """Return a try's unique Job name, so that creating it twice makes one Job."""
    return f"prefect-{run_id}-{number}"


def default_template() -> dict[str, Any]:
    variables = KubernetesJobsVariables.model_json_schema()
    variables.pop("title", None)
    return {"job_configuration": KubernetesJobsConfiguration.json_template(), "variables": variables}
