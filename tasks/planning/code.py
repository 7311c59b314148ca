"""Ids of users' scripts, and whether they are committed."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tasks.planning.channel import Version
from tasks.travel.git import is_in_a_repository
from tasks.travel.tree import take
from workloads.harness.repeat.scripts import S3
from workloads.harness.repeat.suite import Suite
from workloads.harness.repeat.suite_case import SuiteCase


def with_code(suite: Suite, version: Version | None = None) -> Suite:
    """Name the code of scripts, at a `version` if it has a folder.

    Raises:
        GridbenchError: a script's folder can't be read.
    """
    taken = cache(take)

    def named(entry: SuiteCase) -> SuiteCase:
        if entry.script is None:
            return entry
        folder = version.folder if version and version.folder else entry.script.folder
        tree = taken(Path(folder))
        return replace(entry, script=replace(entry.script, folder=folder, code=tree.id, dirty=tree.dirty))

    return replace(suite, entries=tuple(map(named, suite.entries)))


def script_notes(suite: Suite) -> tuple[str, ...]:
    """Return remarks, before scripts are paid for."""
    scripts = [(entry, entry.script) for entry in suite.entries if entry.script]
    folders = dict.fromkeys(script.folder for _, script in scripts if script.dirty)
    guessed: dict[float, list[str]] = {}
    for entry, _ in scripts:
        if entry.assumed:
            guessed.setdefault(entry.estimate_s, []).append(entry.case.workload)
    endless = [
        e.case.workload
        for e, script in scripts
        if not (script.steps or script.epochs or script.whole or script.program)
    ]
    uncounted = dict.fromkeys(
        words
        for _, script in scripts
        for words in (
            f"the installation of {script.packages}" if script.packages else "",
            f"the copy of {script.data}" if (script.data or "").startswith(S3) else "",
            f"the pull of {script.image} and the installation of the lane in it" if script.image else "",
        )
        if words
    )
    return (
        *map(_uncommitted, folders),
        *(
            f"{seconds:g} s a repeat are a guess for {_names(names)}: "
            "set estimate_s, the seconds of one repeat."
            for seconds, names in guessed.items()
        ),
        *([f"Without steps or epochs no hours and USD of a job: {_names(endless)}."] if endless else []),
        *([f"The estimate counts no time for {' and '.join(uncounted)}."] if uncounted else []),
    )


def _uncommitted(folder: str) -> str:
    if is_in_a_repository(Path(folder)):
        return f"the code in {folder} is not all in a commit; it is measured as it is."
    return (
        f"{folder} is not in a git repository: its code is measured as it is, and no commit names it in history, "
        "gate or bisect."
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def short(code: str) -> str:
    return code.rpartition(":")[2][:12]
