"""Check a stored plan's machines: others can write it, and a resume runs its programs."""

import shlex
from typing import Any

from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from tasks.planning.hardware import AUTO, RENTED_POOL, Hardware, hardware_names, load_hardware
from tasks.planning.machines import with_version
from tasks.planning.plan import Plan
from workloads.harness.records.printable import printable

FIELDS = (
    "pool",
    "command",
    "reference",
    "rent",
    "job_variables",
)  # which program runs, where, with what rights
OF_AN_ADDRESS = {"hosts", "container_command", "python", "gpus"}  # job variables of a box without a file
LONGEST = 200  # characters of a value in a sentence


def check_machines(plan: Plan, version: Version | None = None) -> None:
    """Check that machines run the programs of `deployments/hardware`.

    Raises:
        GridbenchError: one of `FIELDS` differs; with both values.
    """
    for machine in plan.hardware:
        planned, written = _decisive(machine), _written(machine, version)
        for field in FIELDS:
            if planned[field] != written[field]:
                name, now, then = _first_difference(field, planned[field], written[field])
                raise GridbenchError(
                    f"run {plan.run}: its plan has {name} {now} for hardware {printable(machine.name)}, and "
                    f"deployments/hardware has {then}: others can change a plan in a shared folder; "
                    f"`gridbench resume {plan.run} --trust-plan` runs it as planned"
                )


def _written(machine: Hardware, version: Version | None) -> dict[str, Any]:
    name = machine.shape or machine.name
    if name not in hardware_names():
        of_box = {key: machine.job_variables[key] for key in OF_AN_ADDRESS & machine.job_variables.keys()}
        reference = machine.reference if machine.reference == (AUTO,) else None
        changes = {"pool": RENTED_POOL, "reference": reference, "rent": None, "job_variables": of_box}
        ours = machine.model_copy(update={**changes, "command": None})
    else:
        ours = load_hardware(name)
    if (
        machine.shape and ours.pool == RENTED_POOL and "hosts" in machine.job_variables
    ):  # a cluster file's box
        hosts = {"hosts": machine.job_variables["hosts"]}
        ours = ours.model_copy(update={"rent": None, "job_variables": {**ours.job_variables, **hosts}})
    return _decisive(with_version(ours, version) if version else ours)


def _decisive(machine: Hardware) -> dict[str, Any]:
    return machine.model_dump(mode="json", include=set(FIELDS))


def _first_difference(field: str, planned: Any, written: Any) -> tuple[str, str, str]:
    if field == "job_variables":
        other = min(key for key in planned | written if planned.get(key) != written.get(key))
        now, then = (("another value" if other in has else "none") for has in (planned, written))
        return f"job_variables.{printable(other)[:LONGEST]}", now, then
    return field, _text(planned), _text(written)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return repr(printable(shlex.join(value) if isinstance(value, list) else str(value))[:LONGEST])
