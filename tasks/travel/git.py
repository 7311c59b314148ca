"""Ask git which files are code, and whether all are committed."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError, one_line

# Never code, even without a .gitignore; tracked files always are.
CACHES = (
    *("__pycache__/", "*.pyc", ".venv/", "venv/", ".git/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/"),
    *(".ipynb_checkpoints/", "node_modules/", "*.egg-info/", ".DS_Store", ".gridbench/"),
)
ENVIRONMENT = "pyvenv.cfg"  # in the folder of an environment, whatever its name
NO_REPOSITORY = "not a git repository"


def names_in(folder: Path) -> list[str]:
    """Return sorted relative paths of code.

    Raises:
        GridbenchError: git is missing, or refuses.
    """
    names = _tracked_and_new(folder) if is_in_a_repository(folder) else _not_ignored(folder)
    found: set[str] = set()
    for name in names:
        path = folder / name
        if path.is_dir() and not path.is_symlink():  # a submodule, fetched or not, or a repository within
            inner_names = names_in(path) if (path / ".git").exists() else []
            found |= {f"{name.rstrip('/')}/{inner}" for inner in inner_names}
        elif path.is_symlink() or path.exists():  # not deleted since
            found.add(name)
    return sorted(found)


def has_changes(folder: Path) -> bool:
    """Return True without git."""
    if not is_in_a_repository(folder):
        return True
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return bool(changed) or bool(_new(folder))


def is_in_a_repository(folder: Path) -> bool:
    """Return whether git tracks it, or a folder above.

    Raises:
        GridbenchError: git is missing, or refuses.
    """
    done = _run(folder, ["rev-parse", "--is-inside-work-tree"])
    if done.returncode and NO_REPOSITORY not in done.stderr.decode(errors="replace"):
        raise _refusal(folder, done.stderr)
    return not done.returncode and done.stdout.strip() == b"true"


def _tracked_and_new(folder: Path) -> list[str]:
    tracked = _names(_git(folder, "ls-files", "--cached", "-z"))
    return [*tracked, *_new(folder)]


def _new(folder: Path) -> list[str]:
    return _without_environments(_names(_git(folder, *_others())))


def _not_ignored(folder: Path) -> list[str]:
    """Return files without git: an empty repository elsewhere reads .gitignore."""
    with tempfile.TemporaryDirectory(prefix="gridbench-tree-") as empty:
        _git(Path(empty), "init", "--quiet")
        where = (f"--git-dir={empty}/.git", f"--work-tree={folder}")
        return _without_environments(_names(_git(folder, *where, *_others())))


def _others() -> list[str]:
    words = ["ls-files", "--others", "--exclude-standard", "-z"]
    return [*words, *(f"--exclude={pattern}" for pattern in CACHES)]


def _without_environments(names: Sequence[str]) -> list[str]:
    roots = tuple(name.removesuffix(ENVIRONMENT) for name in names if name.endswith(f"/{ENVIRONMENT}"))
    return [name for name in names if not name.startswith(roots)] if roots else list(names)


def _names(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _git(folder: Path, *arguments: str) -> bytes:
    done = _run(folder, list(arguments))
    if done.returncode:
        raise _refusal(folder, done.stderr)
    return done.stdout


def _run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    # A hook or an editor can have set variables that name another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "core.quotePath=false", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, env=env | {"LC_ALL": "C"}, check=False)
    except FileNotFoundError:
        raise GridbenchError("git is not installed here, and it tells which files are code") from None


def _refusal(folder: Path, stderr: bytes) -> GridbenchError:
    words = one_line(stderr.decode(errors="replace")) or "it says nothing"
    return GridbenchError(f"git does not tell which files of {folder} are code: {words}")
