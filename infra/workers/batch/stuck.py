"""Why a job waits in RUNNABLE: AWS's reason turned into the number that is too big, or the usual causes."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from infra.workers.base.job_configuration import JobRefused
from infra.workers.batch.reasons import MISCONFIGURED, NO_MACHINES, Job, requirement
from infra.workers.batch.region import RegionCalls

LOOK_S = 20  # a diagnosis does not wait longer than this for AWS
USUAL = (
    "the account's EC2 quota for the instance family (new accounts have 0 vCPUs of G and P), no route from"
    " the subnets to ECS and ECR, or an instance role that may not join the cluster"
)


@dataclass(frozen=True)
class Diagnosis:
    """Why a job waits: `misconfigured` never ends, `capacity` may, `broken` needs the queue mended.

    `doubtful` is a misconfiguration that AWS sees and the numbers don't show: it says so, too, of jobs that
    fit, while their instance boots (github.com/nextflow-io/nextflow, issue 7479).
    """

    kind: Literal["misconfigured", "doubtful", "capacity", "broken", "unknown"]
    message: str


@dataclass(frozen=True)
class InstanceType:
    """What an instance type has."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True)
class QueueState:
    """A queue, its compute environments, and the machines that they name."""

    queue: dict[str, Any]
    environments: list[dict[str, Any]]
    machines: list[InstanceType]

    @property
    def types(self) -> str:
        """The instance types, as one text."""
        names = {
            name
            for env in self.environments
            for name in env.get("computeResources", {}).get("instanceTypes", [])
        }
        return ", ".join(sorted(names)) or "no instance type"

    @property
    def spot(self) -> bool:
        """Whether every compute environment buys spot."""
        kinds = [env.get("computeResources", {}).get("type", "") for env in self.environments]
        return bool(kinds) and all("SPOT" in kind for kind in kinds)

    @property
    def max_vcpus(self) -> int:
        """The most vCPUs that one compute environment may have."""
        return max(
            (env.get("computeResources", {}).get("maxvCpus", 0) for env in self.environments), default=0
        )


async def diagnose(region: RegionCalls, job: Job) -> Diagnosis:
    """Explain a job in RUNNABLE. What may not be read is left out of the explanation."""
    said = job.get("statusReason") or ""
    place = None
    with contextlib.suppress(JobRefused):
        place = await look(region, job["jobQueue"])
    if MISCONFIGURED.search(said):
        if place and place.machines and not too_big(job, place):
            return Diagnosis("doubtful", f"No machine of the queue can run the job, says AWS: {said}")
        found = place and too_big(job, place)
        return Diagnosis("misconfigured", found or f"No machine of the queue can run the job: {said}")
    if NO_MACHINES.search(said):
        return Diagnosis("capacity", said)
    if place and (faults := broken(place)):
        return Diagnosis("broken", f"{faults} {said}".strip())
    if said:
        return Diagnosis("unknown", said)
    if place:
        return Diagnosis("unknown", f"AWS gives no reason yet. {busy(place)} Usual causes: {USUAL}.")
    return Diagnosis("unknown", f"AWS gives no reason yet. Usual causes: {USUAL}.")


async def look(region: RegionCalls, queue: str) -> QueueState:
    """Read a queue with all that is behind it."""
    found = await region.retry("batch", "describe_job_queues", LOOK_S, jobQueues=[queue])
    if not found["jobQueues"]:
        raise JobRefused(f"job_queue {queue} does not exist in {region.name or 'the region'}.")
    order = [
        entry["computeEnvironment"] for entry in found["jobQueues"][0].get("computeEnvironmentOrder", [])
    ]
    described = await region.retry(
        "batch", "describe_compute_environments", LOOK_S, computeEnvironments=order
    )
    environments = described["computeEnvironments"]
    machines: list[InstanceType] = []
    with contextlib.suppress(JobRefused):
        machines = await machines_of(region, environments)
    return QueueState(found["jobQueues"][0], environments, machines)


async def machines_of(region: RegionCalls, environments: list[dict[str, Any]]) -> list[InstanceType]:
    """Read what the instance types have; `g5` stands for all of its sizes, `optimal` for nothing."""
    names = {
        name for env in environments for name in env.get("computeResources", {}).get("instanceTypes", [])
    }
    patterns = [name if "." in name else f"{name}.*" for name in sorted(names) if name != "optimal"]
    if not patterns:
        return []
    wanted = [{"Name": "instance-type", "Values": patterns}]
    answer = await region.retry("ec2", "describe_instance_types", LOOK_S, Filters=wanted)
    return [
        InstanceType(
            entry["InstanceType"],
            entry["VCpuInfo"]["DefaultVCpus"],
            entry["MemoryInfo"]["SizeInMiB"],
            sum(gpu["Count"] for gpu in entry.get("GpuInfo", {}).get("Gpus", [])),
        )
        for entry in answer["InstanceTypes"]
    ]


def too_big(job: Job, place: QueueState | None) -> str:
    """Name each number that no machine of the queue offers, or an empty text where none stands out."""
    if not place or not place.machines:
        return ""
    limits: list[tuple[str, int, Callable[[InstanceType], int]]] = [
        ("vcpus", requirement(job, "VCPU"), lambda m: m.vcpus),
        ("memory_mib", requirement(job, "MEMORY"), lambda m: m.memory_mib),
        ("gpus", requirement(job, "GPU"), lambda m: m.gpus),
    ]
    found = []
    for field, asked, has in limits:
        best = max(place.machines, key=has)
        where = f"{best.name} in queue {place.queue['jobQueueName']} offers ({has(best)})"
        if asked > has(best):
            found.append(f"{field} {asked} is more than {where}")
        elif field == "memory_mib" and asked == has(best):
            found.append(f"{field} {asked} leaves nothing for the host: it is all that {where}")
    if found:
        return "; ".join(found) + "."
    fitting = [m.vcpus for m in place.machines if all(asked <= has(m) for _, asked, has in limits)]
    if not fitting:
        return f"No type of queue {place.queue['jobQueueName']} has all of it at once: {numbers(job)}."
    if min(fitting) > place.max_vcpus:
        environment = place.environments[0]["computeEnvironmentName"]
        return (
            f"vcpus {min(fitting)}, the size of the smallest machine that fits, is more than maxvCpus"
            f" {place.max_vcpus} of compute environment {environment}."
        )
    return ""


def numbers(job: Job) -> str:
    """What a job asks for, as one text."""
    asked = (("vcpus", "VCPU"), ("memory_mib", "MEMORY"), ("gpus", "GPU"))
    return ", ".join(f"{field} {requirement(job, kind)}" for field, kind in asked)


def broken(place: QueueState) -> str:
    """Say which queue or compute environment cannot take jobs, or nothing."""
    found = []
    things = [("Queue", place.queue["jobQueueName"], place.queue)]
    things += [("Compute environment", env["computeEnvironmentName"], env) for env in place.environments]
    for kind, name, thing in things:
        if thing.get("state") == "DISABLED" or thing.get("status") == "INVALID":
            why = f": {thing['statusReason']}" if thing.get("statusReason") else ""
            found.append(f"{kind} {name} is {thing.get('state')} and {thing.get('status')}{why}.")
    return " ".join(found)


def busy(place: QueueState) -> str:
    """Say how full the compute environments are."""
    found = []
    for env in place.environments:
        own = env.get("computeResources", {})
        desired, most = own.get("desiredvCpus", 0), own.get("maxvCpus", 0)
        full = ", which is all it may have" if most and desired >= most else ""
        found.append(
            f"Compute environment {env['computeEnvironmentName']} has {desired} of {most} vCPUs{full}."
        )
    return " ".join(found)


def given_up(diagnosis: Diagnosis, place: QueueState | None, region: RegionCalls, deadline_s: int) -> str:
    """Say what was waited for in vain, and what else could be tried."""
    said = diagnosis.message.rstrip(".")
    if place is None:
        tried = "another type, another region or on-demand"
        return f"No machine within capacity_deadline_s {deadline_s} ({said}): try {tried}."
    bought = "spot" if place.spot else "on-demand"
    other = (
        "a queue of another type, another region, or on-demand" if place.spot else "another type or region"
    )
    return (
        f"No {bought} machine of {place.types} in {region.name or 'the region'} within capacity_deadline_s"
        f" {deadline_s} ({said}): try {other}, or a longer deadline."
    )
