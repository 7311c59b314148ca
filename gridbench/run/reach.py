"""Whether a run can reach its machines from here, and how its flow is told where results are."""

import os
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.store.bucket import is_block


def check_reach(hardware: Sequence[Hardware]) -> None:
    """Refuse a machine that won't reach a server of ours, or can't be rented, before anything starts.

    A box behind SSH needs no way to the server: its worker, which is here, takes it there.

    Raises:
        GridbenchError: there is such a machine.
    """
    if os.environ.get("PREFECT_API_URL"):
        return
    from gridbench.run.session import POOLS

    if away := [machine for machine in hardware if machine.pool not in POOLS]:
        raise GridbenchError(
            f"hardware {away[0].name} is measured by work pool {away[0].pool}, whose machines must reach the "
            "Prefect server: set PREFECT_API_URL to one that they do; docs/aws.md says how"
        )
    if any(machine.rent for machine in hardware):
        from infra.lambda_cloud.api import api_key
        from infra.lambda_cloud.errors import LambdaError

        try:
            api_key()
        except LambdaError as error:
            raise GridbenchError(str(error)) from None


def for_flow(results: Path) -> str:
    """The results store as the flow takes it: it has another working directory."""
    return str(results) if is_block(results) else str(results.absolute())
