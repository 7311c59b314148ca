"""The rooms of the product from the ground up: a module imports its own room and rooms above it in this list.

`python -m tests.rooms` writes the tables of README.md and docs/design.md.
"""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Room(NamedTuple):
    """A folder, or a module below the rest of its folder.

    Attributes:
        name: dotted; the longest one that fits a module is its room.
        holds: in a few words.
        parts: packages that it can import from, if they are above it.
    """

    name: str
    holds: str
    parts: tuple[str, ...]


_W, _T, _I = ("workloads",), ("workloads.harness", "tasks"), ("infra",)
ROOMS = (
    Room("workloads.harness.records", "cases, records, statistics of samples", _W),
    Room("workloads.harness.probes", "probes of CPU, GPU, memory, energy, machine", _W),
    Room("workloads.harness.prepared", "what a workload hands to the engine", _W),
    Room("workloads.harness.registry", "the registry of workloads", _W),
    Room("workloads.harness.engine", "one measurement, up to its verdict", _W),
    Room("workloads.serving", "load for a server, and its rate at a promised latency", _W),
    Room("workloads.harness.repeat", "a repeat's process, limits and suite", _W),
    Room("workloads.harness.group", "several processes that measure one case", _W),
    Room("workloads.mark", "the mark of a script's step", _W),
    Room("workloads.harness.script", "a user's own script", _W),
    Room("workloads.harness.roofline", "measured ceilings", _W),
    Room("workloads.harness.training", "training steps, data, float64 references", _W),
    Room("workloads.nets", "models that several workloads share", _W),
    Room("workloads.harness.checks", "checks of a machine and its memory", _W),
    Room("workloads.harness", "the measuring engine", _W),
    Room("workloads.loadtest", "the load test", _W),
    Room("workloads", "the workloads and their command line", _W),
    Room("tasks.errors", "errors of the user", _T),
    Room("tasks.schema", "strict reading of data files", _T),
    Room("tasks.results", "values with intervals, repeats, summaries, speedups", _T),
    Room("tasks.plausibility", "detection of numbers that cannot be true", _T),
    Room("tasks.findings", "findings of a comparison, one file each", _T),
    Room("tasks.pricing", "prices as dated facts", _T),
    Room("tasks.published", "checks of published tables", _T),
    Room("tasks.travel.git", "a folder's code files, by git", _T),
    Room("tasks.travel.secrets", "detection of secrets", _T),
    Room("tasks.travel.tree", "a folder's code and its hash", _T),
    Room("tasks.store.address", "the address of a results store", _T),
    Room("tasks.planning", "plans, with time and cost", _T),
    Room("tasks.store", "the results store", _T),
    Room("tasks.prediction", "predicted times and costs", _T),
    Room("tasks.delivery", "orders and records through the Prefect API", _T),
    Room("tasks.travel", "transfer of code, packages and data", _T),
    Room("tasks.dispatch", "dispatch of repeats to lanes", _T),
    Room("tasks.regressions", "regressions between nights, runs and versions", _T),
    Room("tasks.report", "reports, charts and artifacts", _T),
    Room("tasks", "the steps of flows: plan, measure, gather, judge, publish", _T),
    Room("infra", "machines that run flows: workers, images, clouds, the local server", _I),
    Room(
        "infra.images",
        "the lanes' image, the frozen reference",
        ("workloads.harness", "infra"),
    ),
    Room("infra.workers.processes", "jobs as process trees", _I),
    Room("infra.workers.base", "jobs that outlive their worker", _I),
    Room("infra.workers.batch", "flows as AWS Batch jobs", _I),
    Room("infra.workers.kubernetes", "flows as Kubernetes jobs", _I),
    Room("infra.workers.ssh", "flows on boxes behind SSH", _I),
    Room("infra.workers.distributions", "workers as separate distributions", _I),
    Room("infra.local", "a Prefect server and workers here", _I),
    Room("infra.aws", "a stack on AWS Batch, up and down", _I),
    Room("infra.gke", "a cluster on GKE, up and down", _I),
    Room("infra.lambda_cloud", "rentals at Lambda Cloud", _I),
    Room("flows", "the Prefect flows: bench, script, lane, nightly, rental", (*_T, "infra", "flows")),
    Room("gridbench", "the command line", (*_T, "infra", "gridbench")),
)
NAMES = tuple(room.name for room in ROOMS)


READMES = {
    "README.md": False,
    "docs/design.md": True,
}  # whether every room is in its table, or each top folder only
BEGIN, END = "<!-- rooms -->", "<!-- /rooms -->"


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def room_of(module: str) -> Room:
    """Return a module's room: the one with the longest matching name."""
    return max((room for room in ROOMS if within(module, room.name)), key=lambda room: len(room.name))


def may_import(importer: str, imported: str) -> bool:
    home, other = room_of(importer), room_of(imported)
    allowed = any(within(imported, part) for part in home.parts)
    is_parent = within(importer, imported)  # a package that holds the importer is loaded before it anyway
    return allowed and (is_parent or NAMES.index(other.name) <= NAMES.index(home.name))


def table(every: bool) -> str:
    """Return the rooms as a Markdown table: all, grouped by imports, or the top folders."""
    if every:
        lines = ["| room | holds |", "| --- | --- |"]
        for parts, rooms in groupby(ROOMS, key=lambda room: room.parts):
            lines.append(f"| *imports {_names(parts)}* | |")
            lines += [f"{_row(room)} |" for room in rooms]
    else:
        lines = ["| folder | holds | can import |", "| --- | --- | --- |"]
        for room in ROOMS:
            if "." not in room.name:
                others = [part for part in room.parts if part != room.name]
                lines.append(f"{_row(room)} | {_names(others) or 'no other folder'} |")
    return "\n".join(lines)


def _row(room: Room) -> str:
    return f"| `{room.name.replace('.', '/')}` | {room.holds}"


def _names(parts: Iterable[str]) -> str:
    return ", ".join(f"`{part}`" for part in parts)


def with_table(text: str, every: bool) -> str:
    """Return a document with a new table between its markers."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table(every)}\n{END}{after}"


if __name__ == "__main__":
    for name, every in READMES.items():
        path = ROOT / name
        path.write_text(with_table(path.read_text(), every))
