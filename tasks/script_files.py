"""Files of scripts, which a resume needs unchanged."""

import json
from collections.abc import Iterator
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.code import short
from tasks.store.store import Store
from tasks.travel.run_code import FOLDER, travels_to
from tasks.travel.tree import Tree, hex_of, take
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text
from workloads.harness.records.script import Script

NAMED = 3  # changed files that an error names


def keep_files(store: Store) -> None:
    """Write the list of scripts' files into a new run's folder.

    Raises:
        GridbenchError: they cannot be read, or the list cannot be written.
    """
    for script in _scripts(store):
        text = json.dumps(_marks(take(Path(script.folder))), indent=0)
        try:
            write_text(_list_of(store, script), text + "\n")
        except WorkloadsError as error:
            raise GridbenchError(f"results: {error}") from None


def check_files(store: Store) -> None:
    """Refuse changed scripts; new files can be their output.

    Remote machines get the planned code: this is for lanes that use the folder itself.

    Raises:
        GridbenchError: a script has changed, or its folder cannot be read.
    """
    if all(map(travels_to, store.plan.hardware)):
        return
    for script in _scripts(store):
        tree = take(Path(script.folder))
        if tree.id == script.code:
            continue
        try:
            planned: dict[str, str] = json.loads(_list_of(store, script).read_text())
        except (OSError, ValueError, RecursionError):
            planned = {}
        now = _marks(tree)
        changed = [name for name, mark in planned.items() if now.get(name) != mark]
        if changed or not planned:
            files = f" ({', '.join(changed[:NAMED])})" if changed else ""
            raise GridbenchError(
                f"the code in {script.folder} differs from the code that run {store.plan.run} was planned with, "
                f"{short(script.code)}{files}: restore it to resume, or start another run"
            )


def _scripts(store: Store) -> Iterator[Script]:
    planned = {case.script.code: case.script for case in store.plan.cases if case.script and case.script.code}
    yield from planned.values()


def _list_of(store: Store, script: Script) -> Path:
    return store.folder / FOLDER / f"{hex_of(script.code)}.files.json"


def _marks(tree: Tree) -> dict[str, str]:
    return {
        file.name: f"{file.digest}{file.link or ''}{' executable' if file.executable else ''}"
        for file in tree.files
    }
