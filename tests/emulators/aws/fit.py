"""Find the instance of a compute environment that can hold a job."""

from dataclasses import dataclass
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from . import reasons

# [doc] docs.aws.amazon.com/batch/latest/userguide/memory-management.html: the kernel keeps some of an instance's
# memory, in its example 2.5 % (7985 of 8192 MiB), and the ECS agent 32 MiB: a job that asks for all of it never fits.
# That 4 % is enough for every type is [belief]; infra.aws.machines leaves 10 %.
KERNEL_SHARE = 0.04
AGENT_MIB = 32
FAMILIES_OF_OPTIMAL = ("c4", "m4", "r4")  # [doc] botocore: CreateComputeEnvironment, instanceTypes


@dataclass(frozen=True)
class Needs:
    vcpus: float
    memory_mib: int
    gpus: int


def needs_of(job) -> Needs:
    return Needs(
        vcpus=float(resource(job, "VCPU", "vcpus", 1)),
        memory_mib=int(float(resource(job, "MEMORY", "memory", 512))),
        gpus=int(float(resource(job, "GPU", None, 0))),
    )


def resource(job, kind: str, old_name: str | None, default: float) -> Any:
    for source in (job.container_overrides, job.job_definition.container_properties or {}):
        for requirement in source.get("resourceRequirements") or []:
            if requirement["type"].upper() == kind:
                return requirement["value"]
        if old_name and source.get(old_name):
            return source[old_name]
    return default


def types_of(environment) -> list[str]:
    """Return a compute environment's instance types, with families expanded."""
    found = []
    for wanted in (environment.compute_resources or {}).get("instanceTypes", []):
        families = FAMILIES_OF_OPTIMAL if wanted == "optimal" else (wanted,)
        if wanted in INSTANCE_TYPES:
            found.append(wanted)
        else:
            found += [name for name in INSTANCE_TYPES if name.split(".")[0] in families]
    return found


def vcpus_of(instance_type: str) -> int:
    return INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"]


def holds(instance_type: str, needs: Needs) -> bool:
    about = INSTANCE_TYPES[instance_type]
    usable_mib = about["MemoryInfo"]["SizeInMiB"] * (1 - KERNEL_SHARE) - AGENT_MIB
    gpus = sum(gpu["Count"] for gpu in about.get("GpuInfo", {}).get("Gpus", []))
    return vcpus_of(instance_type) >= needs.vcpus and usable_mib >= needs.memory_mib and gpus >= needs.gpus


def choices(queue, needs: Needs) -> list[tuple[Any, str]]:
    """Return environments and types that can hold the job, best first, ignoring vCPU limits."""
    return [
        (environment, name)
        for environment in queue.environments
        if environment.state == "ENABLED"
        for name in sorted(types_of(environment), key=vcpus_of)
        if holds(name, needs)
    ]


def largest_vcpus(environment) -> int:
    return int((environment.compute_resources or {}).get("maxvCpus", 0))


def misconfiguration(queue, needs: Needs) -> str | None:
    """Return in AWS's words why the job can never run in this queue, or None."""
    fitting = choices(queue, needs)
    if not fitting:
        return reasons.RESOURCE_REQUIREMENT
    if all(vcpus_of(name) > largest_vcpus(environment) for environment, name in fitting):
        return reasons.MAX_RESOURCE
    return None
