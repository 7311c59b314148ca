"""The code of users' scripts at the time of a plan: the id of its tree, and whether it is in a commit."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from tasks.planning.channel import Version
from tasks.travel.tree import take
from workloads.harness.repeat.suite import Suite, SuiteCase


def with_code(suite: Suite, version: Version | None = None) -> Suite:
    """Return a suite whose scripts name their code; those of a `version` with a folder are taken from there.

    Raises:
        GridbenchError: the folder of a script can't be read.
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
    """Return what is to be said of a suite's scripts before they are paid for."""
    notes: list[str] = []
    for entry in suite.entries:
        script, name = entry.script, entry.case.workload
        if script and script.dirty:
            notes.append(f"the code in {script.folder} is not all in a commit; it is measured as it is.")
        if script and entry.assumed:
            guess = f"{entry.estimate_s:g} s a repeat are a guess for {name}"
            notes.append(f"{guess}: its suite has no estimate_s, the seconds of one.")
        if script and not (script.steps or script.epochs or script.whole):
            notes.append(f"{name} has no length: give steps or epochs, for hours and USD of its job.")
    return tuple(dict.fromkeys(notes))


def short(code: str) -> str:
    """Return the first digits of a tree's id."""
    return code.rpartition(":")[2][:12]
