"""Variables of the Prefect server that hardware files name: are they there, before anything is paid for?"""

import json
import re
from collections.abc import Iterable

from prefect.client.orchestration import get_client

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware

NAMED = re.compile(r"\{\{\s*prefect\.variables\.(\w+)\s*\}\}")


def named_in(machine: Hardware) -> list[tuple[str, str]]:
    """The job variables of a machine that name a variable of the server, each with that name."""
    variables = machine.job_variables.items()
    return [(field, name) for field, value in variables for name in NAMED.findall(json.dumps(value))]


async def check_variables(hardware: Iterable[Hardware]) -> None:
    """See that every variable that a job variable names exists and says something.

    Raises:
        GridbenchError: one does not; Prefect would leave the field empty, on a machine that is paid for.
    """
    wanted = [(machine, field, name) for machine in hardware for field, name in named_in(machine)]
    if not wanted:
        return
    async with get_client() as client:
        for machine, field, name in wanted:
            found = await client.read_variable_by_name(name)
            if found is None or found.value in (None, ""):
                raise GridbenchError(
                    f"hardware {machine.name}: job_variables.{field} is the Prefect variable {name}, which "
                    f"this server lacks: `prefect variable set {name} …`, or write the value there"
                )
