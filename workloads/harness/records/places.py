"""Folders of this machine's user, also of one without a home."""

import os
import tempfile
from pathlib import Path


def home() -> Path:
    """Return the user's home folder, or `temporary_home` for a user without HOME and without a passwd entry."""
    found = Path(os.path.expanduser("~"))
    return found if found.is_absolute() else temporary_home()


def temporary_home() -> Path:
    """Return the folder, below the temporary one, for the files of a user without a home."""
    return Path(tempfile.gettempdir()) / f"gridbench-{os.getuid()}"


def user_cache() -> Path:
    """Return the folder for files that can be made again: XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "gridbench"
