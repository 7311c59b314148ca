"""The installer of packages, uv."""

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path

from tasks.errors import GridbenchError, one_line
from tasks.travel.cache import INSTALLERS, cache_folder
from tasks.travel.secrets import without_logins
from workloads.harness.records.places import home

LONGEST_S = 1800.0
# Only the variables that installer and build need: a build runs untrusted code.
VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "NETRC", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH"),
    *("GIT_SSH_COMMAND", "GIT_ASKPASS", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME"),
    *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "LIBRARY_PATH", "MAX_JOBS"),
)
FAMILIES = ("UV_", "LC_", "XDG_", "SSL_CERT_", "CUDA_", "TORCH_", "CMAKE_", "NVCC_", "ROCM_", "PKG_CONFIG_")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")  # also in capitals
# Use only the machine's Python.
SETTINGS = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1  # prctl(2)
ROOT = "/"  # a folder without a project, whose settings uv would use


def call_uv(*arguments: str, names: Collection[str] = ()) -> str:
    """Run uv and return its output.

    `names`: further variables that it gets.

    Raises:
        GridbenchError: missing, too slow or failed, in its own words.
    """
    if not (uv := find_uv()):
        raise GridbenchError(
            "packages can't be installed here, because uv is not; `pip install uv`, or build the image anew"
        )
    command = [uv, *arguments]
    env = _environ(names)
    if not os.access(home(), os.W_OK):  # in some containers
        env["UV_NO_CACHE"] = "1"
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


def _environ(names: Collection[str]) -> dict[str, str]:
    """Return what uv and its builds see: no login except the named ones."""
    seen = (*VARIABLES, *PROXIES, *map(str.upper, PROXIES), *names)
    return {k: v for k, v in os.environ.items() if k in seen or k.startswith(FAMILIES)} | SETTINGS


def find_uv() -> str | None:
    """Return this Python's, the user's, or a lane's."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv") or next((str(path) for path in [kept_uv()] if path.exists()), None)


def kept_uv() -> Path:
    """Return the path to which a lane brings uv."""
    return cache_folder(INSTALLERS) / "uv" / "bin" / "uv"


def _end_with_parent() -> None:
    """End uv when its job is killed: its lock is released, and another job can make the environment."""
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
