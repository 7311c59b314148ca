"""Checkouts of a user's own script."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gridbench.run.session import STATE
from gridbench.watch.versions import commit_of, git
from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from tasks.planning.code import short
from tasks.planning.hardware import load_suite_checked
from tasks.results.metrics import measured_case
from tasks.schema import validated

FOLDER = STATE / "checkouts"


def script_folder(case: str, suite: str) -> Path | None:
    """Return None for a built-in workload or an unknown case."""
    entries = load_suite_checked(suite).entries
    script = next((entry.script for entry in entries if entry.case.id == measured_case(case)), None)
    return Path(script.folder) if script else None


def script_versions(names: Sequence[str], folder: Path) -> tuple[Version, ...]:
    """Return each version with its script's folder in a checkout that does not exist yet."""
    root = Path(git("rev-parse", "--show-toplevel", at=folder))
    within = folder.resolve().relative_to(root.resolve())
    commits = {name: commit_of("version", name, folder) for name in names}
    return tuple(
        validated(Version, {"name": name, "folder": str(_place(commit) / within)}, f"version {name!r}")
        for name, commit in commits.items()
    )


def _place(commit: str) -> Path:
    return FOLDER / short(commit)


def check_out(version: Version, folder: Path | None) -> None:
    if folder is None or version.folder is None:
        return
    if version.partner:
        check_out(version.partner, folder)
    commit = commit_of("version", version.name, folder)
    checkout = _place(commit)
    if not checkout.exists():
        checkout.parent.mkdir(parents=True, exist_ok=True)
        git("worktree", "add", "--detach", "--force", str(checkout), commit, at=folder)
    if not Path(version.folder).is_dir():
        raise GridbenchError(
            f"version {version.name} of {folder} does not have the script's folder; choose a later GOOD"
        )


@contextmanager
def kept_until_the_end(versions: Sequence[Version], folder: Path | None) -> Iterator[None]:
    try:
        yield
    finally:
        for version in versions if folder else ():
            checkout = _place(commit_of("version", version.name, folder))
            if checkout.exists():
                git("worktree", "remove", "--force", str(checkout), at=folder)
