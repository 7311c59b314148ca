"""The reason why a job waits in RUNNABLE."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..base.job_configuration import JobRefused
from .reasons import MISCONFIGURED, NO_MACHINES, Job, requirement
from .region import RegionCalls

LOOK_S = 20  # longest wait for AWS in a diagnosis
USUAL = (
    "the account's EC2 quota for the instance family (new accounts have 0 vCPUs of G and P), no route from"
    " the subnets to ECS and ECR, or an instance role without permission to join the cluster"
)


@dataclass(frozen=True)
class Diagnosis:
    """Why a job waits: `misconfigured` never ends, `capacity` can, `broken` needs the queue fixed.

    `doubtful` is a misconfiguration that AWS reports and the numbers don't show: AWS reports it also for jobs
    that fit, while their instance boots (github.com/nextflow-io/nextflow, issue 7479).
    """

    kind: Literal["misconfigured", "doubtful", "capacity", "broken", "unknown"]
    message: str


@dataclass(frozen=True)
class InstanceType:
    """The resources of an instance type."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True)
class QueueState:
    """A queue, its compute environments, and their instance types."""

    description: dict[str, Any]
    environments: list[dict[str, Any]]
    instance_types: list[InstanceType]

    @property
    def types(self) -> str:
        return ", ".join(type_names(self.environments)) or "no instance type"

    @property
    def spot(self) -> bool:
        kinds = [env.get("computeResources", {}).get("type", "") for env in self.environments]
        return bool(kinds) and all("SPOT" in kind for kind in kinds)

    @property
    def max_vcpus(self) -> int:
        resources = [env.get("computeResources", {}) for env in self.environments]
        return max((each.get("maxvCpus", 0) for each in resources), default=0)


def type_names(environments: list[dict[str, Any]]) -> list[str]:
    resources = [env.get("computeResources", {}) for env in environments]
    return sorted({name for each in resources for name in each.get("instanceTypes", [])})


async def diagnose(region: RegionCalls, job: Job) -> Diagnosis:
    reason = job.get("statusReason") or ""
    queue: QueueState | None = None
    with contextlib.suppress(JobRefused):
        queue = await look(region, job["jobQueue"])
    if MISCONFIGURED.search(reason):
        if queue and queue.instance_types and not too_big(job, queue):
            text = f"AWS reports that no machine of the queue can run the job: {reason}"
            return Diagnosis("doubtful", text)
        text = too_big(job, queue) or f"No machine of the queue can run the job: {reason}"
        return Diagnosis("misconfigured", text)
    if NO_MACHINES.search(reason):
        return Diagnosis("capacity", reason)
    if queue and (faults := broken(queue)):
        return Diagnosis("broken", f"{faults} {reason}".strip())
    if reason:
        return Diagnosis("unknown", reason)
    fill = f"{busy(queue)} " if queue else ""
    return Diagnosis("unknown", f"AWS has not given a reason yet. {fill}Usual causes: {USUAL}.")


async def look(region: RegionCalls, name: str) -> QueueState:
    queues = (await region.retry("batch", "describe_job_queues", LOOK_S, jobQueues=[name]))["jobQueues"]
    if not queues:
        raise JobRefused(f"job_queue {name} does not exist in {region.name or 'the region'}.")
    order = [entry["computeEnvironment"] for entry in queues[0].get("computeEnvironmentOrder", [])]
    described = await region.retry(
        "batch", "describe_compute_environments", LOOK_S, computeEnvironments=order
    )
    environments = described["computeEnvironments"]
    instance_types: list[InstanceType] = []
    with contextlib.suppress(JobRefused):
        instance_types = await machines_of(region, environments)
    return QueueState(queues[0], environments, instance_types)


async def machines_of(region: RegionCalls, environments: list[dict[str, Any]]) -> list[InstanceType]:
    """Return the types; `g5` stands for all of its sizes, `optimal` for none."""
    names = type_names(environments)
    patterns = [name if "." in name else f"{name}.*" for name in names if name != "optimal"]
    if not patterns:
        return []
    filters = [{"Name": "instance-type", "Values": patterns}]
    answer = await region.retry("ec2", "describe_instance_types", LOOK_S, Filters=filters)
    return [
        InstanceType(
            entry["InstanceType"],
            entry["VCpuInfo"]["DefaultVCpus"],
            entry["MemoryInfo"]["SizeInMiB"],
            sum(gpu["Count"] for gpu in entry.get("GpuInfo", {}).get("Gpus", [])),
        )
        for entry in answer["InstanceTypes"]
    ]


def too_big(job: Job, queue: QueueState | None) -> str:
    if not queue or not queue.instance_types:
        return ""
    limits: list[tuple[str, int, Callable[[InstanceType], int]]] = [
        ("vcpus", requirement(job, "VCPU"), lambda m: m.vcpus),
        ("memory_mib", requirement(job, "MEMORY"), lambda m: m.memory_mib),
        ("gpus", requirement(job, "GPU"), lambda m: m.gpus),
    ]
    problems = []
    for field, required, has in limits:
        best = max(queue.instance_types, key=has)
        where = f"{best.name} in queue {queue.description['jobQueueName']} offers ({has(best)})"
        if required > has(best):
            problems.append(f"{field} {required} is more than {where}")
        elif field == "memory_mib" and required == has(best):
            problems.append(f"{field} {required} leaves no memory for the host: it is all that {where}")
    if problems:
        return "; ".join(problems) + "."
    fitting = [m.vcpus for m in queue.instance_types if all(need <= has(m) for _, need, has in limits)]
    if not fitting:
        numbers = ", ".join(f"{field} {required}" for field, required, _ in limits)
        return f"No type of queue {queue.description['jobQueueName']} has all of these resources: {numbers}."
    if min(fitting) > queue.max_vcpus:
        environment = queue.environments[0]["computeEnvironmentName"]
        return (
            f"vcpus {min(fitting)}, the size of the smallest machine that fits, is more than maxvCpus"
            f" {queue.max_vcpus} of compute environment {environment}."
        )
    return ""


def broken(queue: QueueState) -> str:
    problems = []
    things = [("Queue", queue.description["jobQueueName"], queue.description)]
    things += [("Compute environment", env["computeEnvironmentName"], env) for env in queue.environments]
    for kind, name, thing in things:
        if thing.get("state") == "DISABLED" or thing.get("status") == "INVALID":
            why = f": {thing['statusReason']}" if thing.get("statusReason") else ""
            problems.append(f"{kind} {name} is {thing.get('state')} and {thing.get('status')}{why}.")
    return " ".join(problems)


def busy(queue: QueueState) -> str:
    sentences = []
    for env in queue.environments:
        own = env.get("computeResources", {})
        desired, most = own.get("desiredvCpus", 0), own.get("maxvCpus", 0)
        full = ", its maximum" if most and desired >= most else ""
        name = env["computeEnvironmentName"]
        sentences.append(f"Compute environment {name} has {desired} of {most} vCPUs{full}.")
    return " ".join(sentences)


def given_up(diagnosis: Diagnosis, queue: QueueState | None, region: RegionCalls, deadline_s: int) -> str:
    reason = diagnosis.message.rstrip(".")
    if queue is None:
        remedy = "another type, another region or on-demand"
        return f"No machine within capacity_deadline_s {deadline_s} ({reason}): try {remedy}."
    bought, other = "on-demand", "another type or region"
    if queue.spot:
        bought, other = "spot", "a queue of another type, another region, or on-demand"
    return (
        f"No {bought} machine of {queue.types} in {region.name or 'the region'} within capacity_deadline_s"
        f" {deadline_s} ({reason}): try {other}, or a longer deadline."
    )
