"""Folders of this machine's user, also of one without a home."""

import os
import tempfile
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError


def home() -> Path:
    """Return the user's home folder, or `temporary_home` for a user without HOME and without a passwd entry."""
    found = Path(os.path.expanduser("~"))
    return found if found.is_absolute() else temporary_home()


def temporary_home() -> Path:
    """Return the folder, below the temporary one, for the files of a user without a home.

    Raises:
        WorkloadsError: no temporary folder can be written.
    """
    try:
        return Path(tempfile.gettempdir()) / f"gridbench-{os.getuid()}"
    except FileNotFoundError:
        raise WorkloadsError(
            "no temporary folder can be written: mount one at /tmp, or name another in TMPDIR"
        ) from None


def user_cache() -> Path:
    """Return the folder for files that can be made again: XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "gridbench"
