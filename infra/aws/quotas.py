"""Quotas of vCPUs by instance family: a new account has 0 for GPUs, so that jobs wait in RUNNABLE."""

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.aws.machines import MachineType

# The first letters of a family, its name in the quotas' titles, and their codes on demand and spot.
# Source: `aws service-quotas list-service-quotas --service-code ec2`; P5 has a spot quota of its own.
QUOTAS = (
    ("g", "G and VT", "L-DB2E81BA", "L-3819A6DF"),
    ("p", "P", "L-417A185B", "L-7212CCBC"),
    ("acdhimrtz", "Standard", "L-1216C47A", "L-34B43A08"),
)


def shortages(quotas: Any, machines: Sequence[MachineType]) -> list[str]:
    """Write a sentence for each quota below one machine of the types that it limits."""
    sentences = []
    for letters, family, on_demand, spot in QUOTAS:
        mine = [machine for machine in machines if machine.name[0] in letters]
        largest = max(mine, key=lambda machine: machine.vcpus, default=None)
        if largest is None:
            continue
        for code, purchase in ((on_demand, "on demand"), (spot, "spot")):
            allowed = _value(quotas, code)
            if allowed is not None and allowed < largest.vcpus:
                sentences.append(
                    f"this account may run {allowed:g} vCPUs of {family} {purchase} here, and one "
                    f"{largest.name} has {largest.vcpus}: until quota {code} is raised its jobs wait "
                    "(docs/aws.md)"
                )
    return sentences


def _value(quotas: Any, code: str) -> float | None:
    """Return a quota's present value; None if this account may not ask, or AWS does not say."""
    try:
        return float(quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
    except (BotoCoreError, ClientError, KeyError):
        return None
