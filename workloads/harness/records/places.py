"""Folders of this machine's user, who might have no home."""

import os
import tempfile
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError


def home() -> Path:
    """Return the user's home folder, or `temporary_home` without one."""
    found = Path(os.path.expanduser("~"))
    return found if found.is_absolute() else temporary_home()


def temporary_home() -> Path:
    try:
        return Path(tempfile.gettempdir()) / f"gridbench-{os.getuid()}"
    except FileNotFoundError:
        raise WorkloadsError(
            "no temporary folder can be written: mount one at /tmp, or name another in TMPDIR"
        ) from None


def user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "gridbench"
