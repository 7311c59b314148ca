"""Instance types: shapes, zones, and reasons against them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from botocore.exceptions import ClientError

from infra.aws.account import rows
from infra.aws.errors import AwsError
from infra.workers.batch.errors import code_of

NO_IMAGE = "AWS Batch has no machine image for it since Amazon Linux 2 ended in 2026"
# Families that EC2 might still list. Source: AWS Batch API reference, Ec2Configuration, imageType.
UNUSABLE = {
    "a1": f"{NO_IMAGE} (ECS_AL2023 does not run on A1); c7i or m7i are newer",
    "g2": "AWS has retired it; g4dn.xlarge is the smallest there is",
    "g3": f"{NO_IMAGE} (ECS_AL2023_NVIDIA does not support g3); g4dn.xlarge is newer",
    "g3s": f"{NO_IMAGE} (ECS_AL2023_NVIDIA does not support g3); g4dn.xlarge is newer",
    "p2": "AWS has retired it, and CUDA 12 does not support its K80; g4dn.xlarge is newer",
    "p3": f"{NO_IMAGE} (ECS_AL2023_NVIDIA does not support p3); g5.xlarge or p4d.24xlarge are newer",
    "p3dn": f"{NO_IMAGE} (ECS_AL2023_NVIDIA does not support p3); p4d.24xlarge is newer",
}
MEMORY_FOR_JOBS = 0.9  # the rest is the kernel's and the agent's: a job that asks for all never starts


@dataclass(frozen=True, slots=True)
class MachineType:
    """The shape of an instance type."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int

    @property
    def job_variables(self) -> dict[str, int]:
        memory_mib = int(self.memory_mib * MEMORY_FOR_JOBS) // 256 * 256
        return {"vcpus": self.vcpus, "memory_mib": memory_mib, "gpus": self.gpus}


def check_family(name: str) -> None:
    """Raise `AwsError` for a type without an image, without asking AWS."""
    if reason := UNUSABLE.get(name.partition(".")[0]):
        raise AwsError(f"instance type {name}: {reason}")


def look_up(ec2: Any, names: Sequence[str]) -> list[MachineType]:
    try:
        described = {row["InstanceType"]: row for row in _describe(ec2, names)}
    except ClientError as error:
        if code_of(error) not in ("InvalidInstanceType", "InvalidParameterValue"):
            raise
        described = _one_by_one(ec2, names)
    region = ec2.meta.region_name
    for name in names:
        if name not in described:
            raise AwsError(
                f"instance type {name!r} is unknown in {region}: check its spelling, or the region"
            )
        if "x86_64" not in described[name]["ProcessorInfo"]["SupportedArchitectures"]:
            raise AwsError(f"instance type {name} is Arm and the images are for x86_64: choose another type")
    return [
        MachineType(
            name,
            described[name]["VCpuInfo"]["DefaultVCpus"],
            described[name]["MemoryInfo"]["SizeInMiB"],
            sum(gpu["Count"] for gpu in described[name].get("GpuInfo", {}).get("Gpus", [])),
        )
        for name in names
    ]


def _describe(ec2: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    return rows(ec2, "describe_instance_types", "InstanceTypes", InstanceTypes=list(names))


def _one_by_one(ec2: Any, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    described = {}
    for name in names:
        try:
            described[name] = _describe(ec2, [name])[0]
        except (ClientError, IndexError):
            continue
    return described


def check_cap(machines: Sequence[MachineType], cap_vcpus: int, option: str) -> None:
    """Raise `AwsError` if a machine exceeds the cap: its jobs would wait for ever."""
    largest = max(machines, key=lambda machine: machine.vcpus, default=None)
    if largest and largest.vcpus > cap_vcpus:
        raise AwsError(
            f"{option} is {cap_vcpus}, but one {largest.name} has {largest.vcpus} vCPUs: "
            f"at least {largest.vcpus} are needed"
        )


def choose_zones(ec2: Any, machines: Sequence[MachineType]) -> tuple[tuple[str, str], list[str]]:
    """Return the two zones with the most types, and a sentence for each type left out."""
    offered = offers(ec2, machines)
    region = ec2.meta.region_name
    for machine in machines:
        if not any(machine.name in types for types in offered.values()):
            raise AwsError(f"instance type {machine.name} is in no zone of {region}: choose another region")
    if len(offered) < 2:
        raise AwsError(f"{region} has fewer than two zones with these instance types")

    def worth(pair: tuple[str, str]) -> tuple[int, int]:
        first, second = (offered[zone] for zone in pair)
        return len(first | second), len(first) + len(second)

    pair = max(combinations(sorted(offered), 2), key=worth)
    counts = Counter(name for zone in pair for name in offered[zone])
    notes = [f"{m.name} is in neither {pair[0]} nor {pair[1]}" for m in machines if not counts[m.name]]
    return pair, notes


def offers(ec2: Any, machines: Sequence[MachineType]) -> dict[str, set[str]]:
    types_by_zone: dict[str, set[str]] = {}
    filters = [{"Name": "instance-type", "Values": [machine.name for machine in machines]}]
    for row in rows(
        ec2,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=filters,
    ):
        types_by_zone.setdefault(row["Location"], set()).add(row["InstanceType"])
    return types_by_zone
