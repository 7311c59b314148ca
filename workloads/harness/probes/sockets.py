"""Sockets of loader processes, whose path must not be too long."""

import os
import subprocess
import sys
import tempfile

LONGEST_BYTES = 107  # of a socket's path: sun_path has 108 with the byte that ends it, unix(7)
NAME = "/pymp-12345678/listener-12345678"  # in the temporary folder, as Python's multiprocessing names it
MOST_BYTES = LONGEST_BYTES - len(NAME)
# Newer Pythons leave a temporary folder that is too long and take /tmp, so that only this one knows.
LISTEN = "from multiprocessing.connection import Listener; Listener(family='AF_UNIX').close()"
LISTEN_S = 60.0


def sockets_fault(folder: str = "") -> str:
    folder = folder or tempfile.gettempdir()
    size = len(os.fsencode(folder))
    if size <= MOST_BYTES or _can_listen(folder):
        return ""
    return (
        f"the temporary folder (TMPDIR) has a path of {size} bytes, and sockets of data loaders need {MOST_BYTES} at "
        f"most, so that workers would hang: set TMPDIR to a shorter one than {folder}"
    )


def _can_listen(folder: str) -> bool:
    command = [sys.executable, "-c", LISTEN]
    try:
        done = subprocess.run(
            command,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": folder},
            timeout=LISTEN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
