"""A run's packed code, for other machines."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.images import image_of
from tasks.planning.limits import LOCAL_POOL
from tasks.planning.plan import Plan
from tasks.store.address import S3, ResultsAddress
from tasks.store.store import Store
from tasks.travel.packing import pack
from tasks.travel.requirements import check_packages
from tasks.travel.tree import MIB, Tree, hex_of, take
from workloads.harness.probes.code import code_hash
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_whole
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import OWN_MODULES, declared

FOLDER = "code"
WORKLOADS = "workloads.id"  # names the tree of the folder GRIDBENCH_WORKLOADS
LANE = "lane.id"  # names a lane's own code and its commit, for users' images, which lack it
WORKLOADS_HASH = "workloads.hash"  # of the Python files in that folder, also if it is not sent
MOST_API_BYTES = 20 * MIB  # packed, through the Prefect API, whose database keeps it during the run
MOST_ENTRY_BYTES = 2048  # of a packed file besides its content


class JobCode(NamedTuple):
    """Trees for a lane job.

    Attributes:
        scripts: ids of commands' code.
        workloads: id of a folder, if needed.
        lane: id and commit, for a user's image; None if the machine's image has it.
    """

    scripts: tuple[str, ...] = ()
    workloads: str | None = None
    lane: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        lane = self.lane.split()[0] if self.lane else None
        return tuple(dict.fromkeys(filter(None, (*self.scripts, self.workloads, lane))))


def travels_to(machine: Hardware) -> bool:
    """Return False for the local pool, which uses the folder."""
    return machine.pool != LOCAL_POOL


def refusal(tree: Tree, machine: Hardware, results: ResultsAddress | None = None) -> str | None:
    """Return why a machine can't get this code.

    A bucket as `results` carries larger trees.
    """
    if not travels_to(machine):
        return None
    if tree.hindrance:
        return tree.hindrance
    most_packed = tree.total_bytes + MOST_ENTRY_BYTES * len(tree.files)
    if most_packed <= MOST_API_BYTES or (results and results.is_s3):
        return None
    packed_bytes = len(pack(tree))
    return None if packed_bytes <= MOST_API_BYTES else _too_large(tree.folder, packed_bytes, machine.name)


def keep_code(store: Store) -> None:
    """Pack code into a new run's folder, and note the workloads' hash.

    Raises:
        GridbenchError: packages can't be fetched anywhere, or code must not travel, has changed, or can't be
            written.
    """
    plan = store.plan
    for planned in plan.cases:
        if planned.script and planned.script.packages:
            check_packages(Path(planned.script.folder), planned.script.packages)
    away = [machine for machine in plan.hardware if travels_to(machine)]
    repeats = [repeat for machine in away for repeat in plan.repeats_on(machine)]
    scripts = {script.code: Path(script.folder) for r in repeats for script in r.scripts if script.code}
    for tree_id, folder in scripts.items():
        tree = take(folder)
        if tree.id != tree_id:
            raise GridbenchError(
                f"the code in {folder} has changed since the plan was made; start the run again"
            )
        _keep(store, tree, away[0].name)
    if not (mine := own_workloads(plan)):
        return
    write_code(store, WORKLOADS_HASH, (code_hash(mine) or "").encode())
    if away:
        tree = take(mine)
        _keep(store, tree, away[0].name)
        write_code(store, WORKLOADS, tree.id.encode())


def own_workloads(plan: Plan) -> Path | None:
    """Return GRIDBENCH_WORKLOADS if a case needs it."""
    folder = os.environ.get("GRIDBENCH_WORKLOADS")
    named = [declared(name) for name in {planned.workload for planned in plan.cases}] if folder else []
    mine = any(found and found.build.__module__.startswith(OWN_MODULES) for found in named)
    return Path(folder) if folder and mine else None


def workloads_hash(folder: Path) -> str | None:
    """Return None if the run measured none."""
    note = folder / FOLDER / WORKLOADS_HASH
    return note.read_text() if note.is_file() else None


def code_for(store: Store, machine: Hardware, repeats: Sequence[Repeat]) -> JobCode:
    """Return the trees that the job is sent."""
    if not travels_to(machine):
        return JobCode()
    ids = dict.fromkeys(script.code for repeat in repeats for script in repeat.scripts if script.code)
    is_in_image = any(image_of(repeat) for repeat in repeats)
    return JobCode(tuple(ids), in_run(store, WORKLOADS), in_run(store, LANE) if is_in_image else None)


def in_run(store: Store, name: str) -> str | None:
    """Return a note from the run's code folder."""
    note = store.folder / FOLDER / name
    return note.read_text() if note.is_file() else None


def packed(store: Store, tree_id: str) -> Path:
    return store.folder / FOLDER / f"{hex_of(tree_id)}.pack"


def key_of(store: Store, tree_id: str) -> str:
    """Return the name in the run's bucket."""
    return f"{store.folder.name}/{FOLDER}/{packed(store, tree_id).name}"


def _keep(store: Store, tree: Tree, machine: str) -> None:
    content = pack(tree)
    if len(content) > MOST_API_BYTES and not (store.bucket and store.bucket.name.startswith(f"{S3}/")):
        raise GridbenchError(_too_large(tree.folder, len(content), machine))
    write_code(store, packed(store, tree.id).name, content)


def write_code(store: Store, name: str, content: bytes) -> None:
    """Write into a run's code folder.

    Raises:
        GridbenchError: it can't be written.
    """
    try:
        write_whole(store.folder / FOLDER / name, content)
    except WorkloadsError as error:
        raise GridbenchError(f"results: {error}") from None


def _too_large(folder: Path, packed_bytes: int, machine: str) -> str:
    return (
        f"the code in {folder} is {packed_bytes / MIB:.0f} MiB packed, and without a bucket {machine} gets "
        f"{MOST_API_BYTES // MIB} MiB at most; list files that are not code in .gitignore, put data into --data, or "
        f"results into {S3}/NAME"
    )
