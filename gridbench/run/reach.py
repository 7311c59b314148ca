"""Checks that a run can reach its machines."""

import os
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan
from tasks.store.address import ResultsAddress
from tasks.travel.requirements import check_packages
from tasks.travel.run_code import refusal
from tasks.travel.tree import take


def check_reach(hardware: Sequence[Hardware]) -> None:
    """Check that each machine can reach the run's API or be rented; give back overdue boxes before.

    A box behind SSH reaches the API through its worker, which runs here. If PREFECT_API_URL is set, the
    workers run elsewhere and provide the connection to the API.
    """
    from gridbench.run.remote import elsewhere  # imports Prefect, which takes most of a second

    if away := elsewhere(hardware):
        _check_api(away)
    rents = any(machine.rent for machine in hardware)
    if rents and (os.environ.get("LAMBDA_API_KEY") or not (away or os.environ.get("PREFECT_API_URL"))):
        from gridbench.machines.lambda_cloud import sweep_overdue

        sweep_overdue()


def check_code_reach(plan: Plan, results: ResultsAddress) -> None:
    scripts = [planned.script for planned in plan.cases if planned.script]
    for folder, file in dict.fromkeys((script.folder, script.packages) for script in scripts):
        if file:
            check_packages(Path(folder), file)
    for tree in (take(Path(folder)) for folder in dict.fromkeys(script.folder for script in scripts)):
        for machine in plan.hardware:
            if why := refusal(tree, machine, results):
                raise GridbenchError(why)


def _check_api(away: Sequence[Hardware]) -> None:
    from gridbench.setup.note import read_notes
    from gridbench.setup.prefect_api import reachable_api, settings_api

    if not os.environ.get("PREFECT_API_URL"):
        reachable_api(f"work pool {away[0].pool}, such as {away[0].name},")
    api = settings_api()
    for note in read_notes():
        if not api or all(machine.pool != note.pool for machine in away):
            continue
        if note.api_url != api.url:
            raise GridbenchError(
                f"work pool {note.pool} is on {note.api_url}, but Prefect's settings name {api.url}: switch "
                f"back to that profile (`prefect profile use`), or run `gridbench up {note.cloud}` for this API"
            )
        if note.cloud == "aws":
            from gridbench.setup.aws import check_quotas  # boto3 is slow to import

            check_quotas(note, away)


def suite_for_flow(suite: str) -> str:
    return str(Path(suite).absolute()) if suite.endswith(".toml") else suite
