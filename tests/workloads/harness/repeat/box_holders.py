"""Processes that hold the box."""

import fcntl
from pathlib import Path

ROOT = Path(__file__).parents[4]


def is_free(path):
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
