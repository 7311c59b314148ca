"""The code of users' scripts at the time of a plan: the id of its tree, and whether it is in a commit."""

import hashlib
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from workloads.harness.records.script import Script
from workloads.harness.repeat.suite import Suite, SuiteCase

GIT_S = 60  # timeout of a git command
LEFT_OUT = (".git", "__pycache__", ".venv")  # folders of a tree that git does not look after


def with_code(suite: Suite, version: Version | None = None) -> Suite:
    """Return a suite whose scripts name their code; those of a `version` with a folder are taken from there.

    Raises:
        GridbenchError: the folder of a script can't be read.
    """
    taken = cache(tree_of)

    def named(entry: SuiteCase) -> SuiteCase:
        if entry.script is None:
            return entry
        folder = version.folder if version and version.folder else entry.script.folder
        code, dirty = taken(folder)
        return replace(entry, script=replace(entry.script, folder=folder, code=code, dirty=dirty))

    return replace(suite, entries=tuple(map(named, suite.entries)))


def check_code(scripts: Iterable[Script | None], run: str) -> None:
    """Refuse to go on with a run whose scripts have other code by now.

    Raises:
        GridbenchError: a folder has changed since the plan, or can't be read.
    """
    for script in dict.fromkeys(scripts):
        if script and script.code and tree_of(script.folder)[0] != script.code:
            raise GridbenchError(
                f"the code in {script.folder} is not what run {run} was planned with ({short(script.code)}): "
                "bring that back to resume, or start another run"
            )


def script_notes(suite: Suite) -> tuple[str, ...]:
    """Return what is to be said of a suite's scripts before they are paid for."""
    notes: dict[str, None] = {}
    for entry in suite.entries:
        if entry.script and entry.script.dirty:
            notes[f"the code in {entry.script.folder} is not all in a commit; it is measured as it is."] = None
        if entry.script and entry.assumed:
            name, guess_s = entry.case.workload, f"{entry.estimate_s:g} s"
            notes[f"{guess_s} a repeat are a guess for {name}, which has no estimate_s."] = None
    return tuple(notes)


def short(code: str) -> str:
    """Return the first digits of a tree's id."""
    return code.rpartition(":")[2][:12]


def tree_of(folder: str) -> tuple[str, bool]:
    """Return the id of a folder's tree, and True if it has changes that are in no commit.

    Of a git checkout, the tree is what git tracks and what is new and not ignored.

    Raises:
        GridbenchError: the folder can't be read.
    """
    root = Path(folder)
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    dirty = bool(_git(root, "status", "--porcelain", "."))
    if listed is None:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if not _left_out(path, root)]
    else:
        names = [name for name in listed.split("\0") if name]
    digest = hashlib.sha256()
    try:
        for name in sorted(set(names)):
            if (root / name).is_file():
                content = hashlib.sha256((root / name).read_bytes()).hexdigest()
                digest.update(f"{name}\0{content}\n".encode())
    except OSError as error:
        raise GridbenchError(f"the code in {folder} can't be read: {error}") from None
    return f"sha256:{digest.hexdigest()}", dirty


def _left_out(path: Path, root: Path) -> bool:
    return any(part in LEFT_OUT for part in path.relative_to(root).parts)


def _git(folder: Path, *words: str) -> str | None:
    """Return the output of a git command; None where there is no git, or the folder is not in a checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=GIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
