"""Kubernetes' quantities: 500m, 1.5Gi, 8."""

import re
from decimal import Decimal
from typing import Any

from tests.emulators.kube.api_server.objects import Obj, bad_request

# k8s.io/apimachinery/pkg/api/resource
FORM = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX = "unable to parse quantity's suffix"
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {
    suffix: Decimal(10) ** power
    for suffix, power in zip(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), range(-9, 19, 3), strict=True)
}


class WrongQuantity(ValueError):
    """An invalid quantity; the text is the API server's."""


def quantity(value: Any) -> Decimal:
    """Return the number in units, bytes or cores; raise WrongQuantity."""
    found = FORM.fullmatch(str(value))
    if not found:
        raise WrongQuantity(WRONG_FORM)
    number, unit = found.groups()
    if re.fullmatch(r"[eE][-+]?[0-9]+", unit):
        return Decimal(number + unit)
    if unit not in BINARY and unit not in DECIMAL:
        raise WrongQuantity(WRONG_SUFFIX)
    return Decimal(number) * (BINARY.get(unit) or DECIMAL[unit])


def checked(value: Any, kind: str) -> Decimal:
    """Return `quantity`; answer 400 if an object of that kind has an invalid one."""
    try:
        return quantity(value)
    except WrongQuantity as error:
        message = f'{kind} in version "v1" cannot be handled as a {kind}: {error}'
        raise bad_request(message) from None


def shown(amount: Decimal, like: str = "") -> str:
    """Write a sum like the server: with binary suffixes if `like` has one."""
    table = BINARY if like.endswith("i") else {u: DECIMAL[u] for u in ("k", "M", "G", "T")}
    fitting = [(unit, size) for unit, size in table.items() if amount and amount % size == 0]
    if fitting:
        unit, size = fitting[-1]
        return f"{int(amount / size)}{unit}"
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"


def requests_of(pod: Obj) -> dict[str, Decimal]:
    return total(pod, "requests")


def total(pod: Obj, which: str) -> dict[str, Decimal]:
    amounts: dict[str, Decimal] = {}
    for container in pod["spec"]["containers"]:
        for name, value in ((container.get("resources") or {}).get(which) or {}).items():
            amounts[name] = amounts.get(name, Decimal(0)) + quantity(value)
    return amounts
