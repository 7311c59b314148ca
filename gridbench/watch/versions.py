"""The versions between two, and the image or command that runs each of them."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from tasks.schema import validated
from workloads.harness.records.errors import hint

PLACEHOLDER = "{version}"  # the version's name in a template
GIT_S = 60  # timeout of a git command


def versions_between(
    good: str, bad: str, given: str | None, at: Path | None = None
) -> tuple[tuple[str, ...], bool]:
    """Return the versions from GOOD to BAD, both included, and True if they are commits.

    `given` is a file with a version per line, or versions separated by commas, oldest first; None for the
    commits of the checkout at `at`, by first parents.
    """
    if good == bad:
        raise GridbenchError(f"GOOD and BAD are both {good!r}: name two different versions")
    if given is None:
        return _commits(good, bad, at), True
    names = _listed(given)
    for what, name in (("GOOD", good), ("BAD", bad)):
        if name not in names:
            raise GridbenchError(f"{what} {name!r} is not among the versions; {hint(name, names)}")
    if twice := next((name for index, name in enumerate(names) if name in names[:index]), None):
        raise GridbenchError(f"versions has {twice!r} twice")
    first, last = names.index(good), names.index(bad)
    if first > last:
        raise GridbenchError(f"GOOD {good!r} comes after BAD {bad!r}: versions are given oldest first")
    return tuple(names[first : last + 1]), False


def runnable_versions(names: Sequence[str], image: str | None, command: str | None) -> tuple[Version, ...]:
    if (image is None) == (command is None):
        raise GridbenchError("give exactly one of --image-template and --command-template")
    template, option = (image, "image") if command is None else (command, "command")
    if PLACEHOLDER not in (template or ""):
        raise GridbenchError(
            f"{option}_template={template!r} has no {PLACEHOLDER}: every version would be the same"
        )
    raws: list[dict[str, object]] = [
        {"name": name, "image": image.replace(PLACEHOLDER, name)}
        if image is not None
        else {"name": name, "command": [word.replace(PLACEHOLDER, name) for word in _words(command or "")]}
        for name in names
    ]
    return tuple(validated(Version, raw, f"version {raw['name']!r}") for raw in raws)


def describe_commit(commit: str, at: Path | None = None) -> str:
    """Return a commit's short hash, author and subject; the commit itself if git fails."""
    try:
        return git("log", "-1", "--format=%h %an %s", commit, at=at)
    except GridbenchError:
        return commit


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise GridbenchError(f"command_template={command!r} can't be read as a command: {error}") from None


def _listed(given: str) -> list[str]:
    try:
        text = Path(given).read_text() if "," not in given else given.replace(",", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise GridbenchError(
            f"versions={given!r} is neither a readable file nor versions separated by commas: {error}"
        ) from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _commits(good: str, bad: str, at: Path | None) -> tuple[str, ...]:
    first, last = (commit_of(what, name, at) for what, name in (("GOOD", good), ("BAD", bad)))
    if first == last:
        raise GridbenchError(f"GOOD {good!r} and BAD {bad!r} are the same commit, {first}")
    if git("merge-base", first, last, at=at) != first:
        raise GridbenchError(
            f"GOOD {good!r} is not an ancestor of BAD {bad!r}; name the versions with --versions"
        )
    return first, *git("rev-list", "--first-parent", "--reverse", f"{first}..{last}", at=at).split()


def commit_of(what: str, name: str, at: Path | None = None) -> str:
    try:
        return git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}", at=at)
    except GridbenchError as error:
        raise GridbenchError(
            f"{what} {name!r} is not a commit of a git checkout in {at or 'this directory'}; "
            f"name the versions with --versions ({error})"
        ) from None


def git(*words: str, at: Path | None = None) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=at, capture_output=True, text=True, check=True, timeout=GIT_S
        )
    except subprocess.CalledProcessError as error:
        raise GridbenchError(f"git {words[0]}: {' '.join(error.stderr.split())[-200:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GridbenchError(f"git {words[0]} can't be run: {error}") from None
    return done.stdout.strip()
