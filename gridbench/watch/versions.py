"""Which versions lie between two, and what brings each of them onto a machine."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from tasks.schema import hint, validated

PLACE = "{version}"  # where a template has the version's name
GIT_S = 60  # for git to answer


def versions_between(good: str, bad: str, given: str | None) -> tuple[tuple[str, ...], bool]:
    """The versions from GOOD to BAD, both included, and whether they are commits.

    Args:
        good, bad: as they stand in `given`, or whatever git knows as a commit.
        given: a file with a version in each line, or versions with commas between, oldest first; None for the
            commits of the checkout in the working directory, by first parents.

    Raises:
        GridbenchError: there are none, or GOOD is not before BAD among them.
    """
    if good == bad:
        raise GridbenchError(f"GOOD and BAD are both {good!r}: there is nothing between them")
    if given is None:
        return _commits(good, bad), True
    names = _listed(given)
    for what, name in (("GOOD", good), ("BAD", bad)):
        if name not in names:
            raise GridbenchError(f"{what} {name!r} is not among the versions; {hint(name, names)}")
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise GridbenchError(f"versions has {twice!r} twice")
    first, last = names.index(good), names.index(bad)
    if first > last:
        raise GridbenchError(f"GOOD {good!r} comes after BAD {bad!r}: versions are given oldest first")
    return tuple(names[first : last + 1]), False


def brought(names: Sequence[str], image: str | None, command: str | None) -> tuple[Version, ...]:
    """Each version with its image or its command, whichever template is given.

    Raises:
        GridbenchError: none or both are, one lacks the place for the version, or a name is none.
    """
    if (image is None) == (command is None):
        raise GridbenchError("give one of --image-template and --command-template, and not both")
    template, option = (image, "image") if command is None else (command, "command")
    if PLACE not in (template or ""):
        raise GridbenchError(
            f"{option}_template={template!r} has no {PLACE}: every version would be the same"
        )
    if command is None:
        raws = [{"name": name, "image": (image or "").replace(PLACE, name)} for name in names]
    else:
        raws = [
            {"name": name, "command": [w.replace(PLACE, name) for w in _words(command)]} for name in names
        ]
    return tuple(validated(Version, raw, f"version {raw['name']!r}") for raw in raws)


def about(commit: str) -> str:
    """A commit in a line, as git has it: short hash, author, subject; the commit itself where git fails."""
    try:
        return _git("log", "-1", "--format=%h %an %s", commit)
    except GridbenchError:
        return commit


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise GridbenchError(f"command_template={command!r} can't be read as a command: {error}") from None


def _listed(given: str) -> list[str]:
    """The versions of a file or a list.

    Raises:
        GridbenchError: the file can't be read, or there are none.
    """
    try:
        text = Path(given).read_text() if "," not in given else given.replace(",", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise GridbenchError(
            f"versions={given!r} is neither a file that can be read nor versions with commas between: {error}"
        ) from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _commits(good: str, bad: str) -> tuple[str, ...]:
    """The commits from one to another, by first parents, oldest first.

    Raises:
        GridbenchError: git does not know them, or the one does not lead to the other.
    """
    first, last = (_commit(what, name) for what, name in (("GOOD", good), ("BAD", bad)))
    if first == last:
        raise GridbenchError(f"GOOD {good!r} and BAD {bad!r} are one commit, {first}")
    if _git("merge-base", first, last) != first:
        raise GridbenchError(
            f"GOOD {good!r} is no ancestor of BAD {bad!r}; name the versions with --versions"
        )
    return first, *_git("rev-list", "--first-parent", "--reverse", f"{first}..{last}").split()


def _commit(what: str, name: str) -> str:
    """The whole hash of a commit.

    Raises:
        GridbenchError: git knows none by that name.
    """
    try:
        return _git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    except GridbenchError as error:
        raise GridbenchError(
            f"{what} {name!r} is no commit of a checkout here; name the versions with --versions ({error})"
        ) from None


def _git(*words: str) -> str:
    """What git says.

    Raises:
        GridbenchError: there is none, or it fails; with its last words.
    """
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=True, timeout=GIT_S)
    except subprocess.CalledProcessError as error:
        raise GridbenchError(f"git {words[0]}: {' '.join(error.stderr.split())[-200:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GridbenchError(f"git {words[0]} can't be run: {error}") from None
    return done.stdout.strip()
