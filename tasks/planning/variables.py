"""Check the Prefect variables that hardware files refer to, before anything is paid for."""

import json
import re
from collections.abc import Iterable

from prefect.client.orchestration import get_client

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware

NAMED = re.compile(r"\{\{\s*prefect\.variables\.(\w+)\s*\}\}")


def named_in(machine: Hardware) -> list[tuple[str, str]]:
    """Return the job variables of a machine that refer to a Prefect variable, each with its name."""
    variables = machine.job_variables.items()
    return [(field, name) for field, value in variables for name in NAMED.findall(json.dumps(value))]


async def check_variables(hardware: Iterable[Hardware]) -> None:
    """Check that every Prefect variable that a job variable refers to exists and is not empty.

    Raises:
        GridbenchError: one is missing; Prefect would leave the field empty, on a machine that is paid for.
    """
    references = [(machine, field, name) for machine in hardware for field, name in named_in(machine)]
    if not references:
        return
    async with get_client() as client:
        for machine, field, name in references:
            variable = await client.read_variable_by_name(name)
            if variable is None or variable.value in (None, ""):
                raise GridbenchError(
                    f"hardware {machine.name}: job_variables.{field} is the Prefect variable {name}, which "
                    f"this server lacks: `prefect variable set {name} …`, or write the value there"
                )
