"""The identity of the measured code: commit, changes, and a hash of its files."""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from workloads.harness.probes.cpu import read_text

CODE = Path(__file__).parents[2]  # the folder `workloads`
CHANGED = "-dirty"  # ends a commit from which files differ
GIT_S = 5.0  # most seconds that git can take


def code_facts(folder: Path = CODE, environ: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Return `commit`, with `-dirty` if the folder's files differ, and `code`, their hash; None if unknown."""
    commit = git_commit(folder / "code.py", environ)
    is_checkout = commit is not None and not environ.get("GRIDBENCH_COMMIT")
    changed = is_checkout and has_changes(folder)
    return {"commit": f"{commit}{CHANGED}" if changed else commit, "code": code_hash(folder)}


def code_hash(folder: Path = CODE) -> str | None:
    total = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    for path in files:
        with suppress(OSError):
            content = path.read_bytes()
            total.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
            total.update(content)
    return total.hexdigest()[:12] if files else None


def has_changes(folder: Path) -> bool:
    """Return whether a folder's files differ from its commit; False if unknown."""
    command = ["git", "--no-optional-locks", "-C", str(folder), "status", "--porcelain", "--", "."]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def git_commit(start: Path = Path(__file__), environ: Mapping[str, str] = os.environ) -> str | None:
    if commit := environ.get("GRIDBENCH_COMMIT"):
        return commit
    for folder in start.absolute().parents:
        git = folder / ".git"
        pointer = read_text(git)[0]  # a file in a worktree, a folder elsewhere
        git = folder / pointer.removeprefix("gitdir:").strip() if pointer else git
        head = read_text(git / "HEAD")[0].strip()
        if not head:
            continue
        name = head.removeprefix("ref:").strip()
        shared = git / (read_text(git / "commondir")[0].strip() or ".")
        packed = re.search(rf"^(\w+) {re.escape(name)}$", read_text(shared / "packed-refs")[0], re.MULTILINE)
        loose = read_text(git / name)[0].strip() or read_text(shared / name)[0].strip()
        commit = name if head == name else loose or (packed[1] if packed else "")
        return commit if re.fullmatch(r"[0-9a-f]{40,64}", commit) else None
    return None
