"""The machines of a shortlist."""

import os

from gridbench.run.session import KEY
from gridbench.setup.note import read_notes
from gridbench.setup.prefect_api import settings_api
from tasks.errors import GridbenchError
from tasks.planning.hardware import hardware_names, load_hardware
from tasks.results.format import format_count


def candidates(ranks: int) -> list[str]:
    """Return the machines with a GPU for each rank, this computer or else the cheapest first.

    A local server reaches this computer and, with a key, boxes at Lambda Cloud; else it is the prepared
    clouds of Prefect's API.
    """
    from workloads.harness.probes.device_here import device_here

    here = ["local-cuda"] if ranks == 1 and device_here() == "cuda" else []
    pools = set() if here else _ready_pools()
    machines = [
        machine
        for machine in map(load_hardware, hardware_names())
        if machine.gpus == ranks and not machine.unsupported
    ]
    rented = [m for m in machines if (m.rent and os.environ.get(KEY)) or m.pool in pools]
    rented.sort(key=lambda machine: machine.price.usd_per_hour)
    if names := [*here, *(machine.name for machine in rented)]:
        return names
    raise GridbenchError(
        f"--offers finds no machine with {format_count(ranks, 'GPU')} that is reached from here: name some with --on, "
        f"such as ssh://USER@HOST?usd=1.99, set {KEY}, or set up a cloud with `gridbench up`"
    )


def _ready_pools() -> set[str]:
    api = settings_api()
    return {note.pool for note in read_notes() if api and note.api_url == api.url}
