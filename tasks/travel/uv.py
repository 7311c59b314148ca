"""The installer of packages, uv, as the environment of this process has it."""

import ctypes
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tasks.errors import GridbenchError, one_line
from tasks.travel.kept import INSTALLERS, kept_folder
from tasks.travel.secrets import without_logins

LONGEST_S = 1800.0
# No other Python than the machine's own.
SETTINGS = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1  # prctl(2)
ROOT = "/"  # a folder without a project, whose settings uv would take


def call_uv(*arguments: str) -> str:
    """Run uv and return its output.

    Raises:
        GridbenchError: it is not there, takes too long or fails; the sentence has its own words.
    """
    if not (uv := find_uv()):
        raise GridbenchError(
            "packages can't be installed here, because uv is not; `pip install uv`, or build the image anew"
        )
    command = [uv, *arguments]
    env = os.environ | SETTINGS
    if not os.access(Path.home(), os.W_OK):  # as in some containers
        env["UV_NO_CACHE"] = "1"
    env.pop("VIRTUAL_ENV", None)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=env,
            cwd=ROOT,
            timeout=LONGEST_S,
            check=False,
            preexec_fn=_end_with_parent,
        )
    except subprocess.TimeoutExpired:
        raise GridbenchError(f"packages were not installed within {LONGEST_S:.0f} s") from None
    if done.returncode:
        raise GridbenchError(f"packages can't be installed: {one_line(without_logins(done.stderr), 600)}")
    return done.stdout


def find_uv() -> str | None:
    """Return the path of uv: this Python's own, the user's, or the one that a lane has brought."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv") or next((str(path) for path in [kept_uv()] if path.exists()), None)


def kept_uv() -> Path:
    """Return where a lane brings uv, on a machine that has none."""
    return kept_folder(INSTALLERS) / "uv" / "bin" / "uv"


def _end_with_parent() -> None:
    """Have uv end when its job is killed: the lock goes, and another job makes the same environment."""
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
