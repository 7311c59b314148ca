"""Quotas of vCPUs by instance family; a new account has 0 for GPUs, so its jobs wait in RUNNABLE."""

import re
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.aws.machines import MachineType

# The types that a quota limits, its name, and its code. Other families, such as inf2, are not checked.
# Source: `aws service-quotas list-service-quotas --service-code ec2`.
QUOTAS = (
    (r"(g|vt)\d", "G and VT on demand", "L-DB2E81BA"),
    (r"(g|vt)\d", "G and VT spot", "L-3819A6DF"),
    (r"p\d", "P on demand", "L-417A185B"),
    (r"p[2-4]", "P4, P3 and P2 spot", "L-7212CCBC"),
    (r"p5", "P5 spot", "L-C4BD4855"),
    (r"[acdhimrtz]\d", "Standard on demand", "L-1216C47A"),
    (r"[acdhimrtz]\d", "Standard spot", "L-34B43A08"),
)


def shortages(quotas: Any, machines: Sequence[MachineType]) -> list[str]:
    sentences = []
    for pattern, family, code in QUOTAS:
        mine = [machine for machine in machines if re.match(pattern, machine.name)]
        largest = max(mine, key=lambda machine: machine.vcpus, default=None)
        allowed = _value(quotas, code) if largest else None
        if largest and allowed is not None and allowed < largest.vcpus:
            sentences.append(
                f"this account is allowed {allowed:g} vCPUs of {family} here, and one {largest.name} has "
                f"{largest.vcpus}: until quota {code} is raised its jobs wait (docs/aws.md)"
            )
    return sentences


def shortage(quotas: Any, instance: str, vcpus: int, spot: bool) -> str | None:
    for pattern, family, code in QUOTAS:
        if not re.match(pattern, instance) or family.endswith("spot") != spot:
            continue
        allowed = _value(quotas, code)
        if allowed is not None and allowed < vcpus:
            return (
                f"this account is allowed {allowed:g} vCPUs of {family}, and one {instance} has {vcpus}: its "
                f"jobs would wait until quota {code} is raised (docs/aws.md)"
            )
    return None


def _value(quotas: Any, code: str) -> float | None:
    try:
        return float(quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
    except (BotoCoreError, ClientError, KeyError):
        return None
