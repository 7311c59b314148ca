"""Whether a run can reach its machines from here, and how its flow is told where results are."""

import os
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan
from tasks.store.block import is_block
from tasks.travel.requirements import check_packages
from tasks.travel.run_code import refusal
from tasks.travel.tree import take


def check_reach(hardware: Sequence[Hardware]) -> None:
    """Refuse a machine that won't reach the run's API, or can't be rented, before anything starts.

    A box behind SSH needs no way to the server: its worker, which is here, takes it there. Where
    PREFECT_API_URL is set, the workers are somebody's own, and they know how their machines reach the API.
    Before a box is rented, those that an earlier renter has left behind are given back.

    Raises:
        GridbenchError: there is such a machine.
    """
    from gridbench.run.remote import elsewhere  # imports Prefect, which takes most of a second

    if away := elsewhere(hardware):
        _check_api(away)
    rents = any(machine.rent for machine in hardware)
    if rents and (os.environ.get("LAMBDA_API_KEY") or not (away or os.environ.get("PREFECT_API_URL"))):
        from gridbench.machines.lambda_cloud import sweep_overdue

        sweep_overdue()


def check_code_reach(plan: Plan, results: str | None) -> None:
    """Refuse code that a machine could not get, and packages that none could, before anything starts.

    Raises:
        GridbenchError: there is such a machine or package; with the reason.
    """
    scripts = [planned.script for planned in plan.cases if planned.script]
    for folder, file in dict.fromkeys((script.folder, script.packages) for script in scripts):
        if file:
            check_packages(Path(folder), file)
    for tree in (take(Path(folder)) for folder in dict.fromkeys(script.folder for script in scripts)):
        for machine in plan.hardware:
            if why := refusal(tree, machine, results):
                raise GridbenchError(why)


def _check_api(away: Sequence[Hardware]) -> None:
    """Refuse machines of a cloud where no API is named that they can reach, or that was not made ready."""
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
                f"work pool {note.pool} was made at {note.api_url}, but Prefect's settings name {api.url}: "
                f"choose that profile again (`prefect profile use`), or `gridbench up {note.cloud}` for this"
            )
        if note.cloud == "aws":
            from gridbench.setup.aws import check_quotas  # boto3 is slow to import

            check_quotas(note, away)


def suite_for_flow(suite: str) -> str:
    """Return a suite as the flow takes it: a name as it is, a path of its file in full."""
    return str(Path(suite).absolute()) if suite.endswith(".toml") else suite


def for_flow(results: Path) -> str:
    """The results store as the flow takes it: it has another working directory."""
    return str(results) if is_block(results) else str(results.absolute())
