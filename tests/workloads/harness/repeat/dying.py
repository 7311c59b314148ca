"""Repeats of workloads that die, and waits for their ends."""

import time
from pathlib import Path

import psutil

from workloads.harness.records.case import Case

ROOT = Path(__file__).parents[4]


CASE = Case.of("matmul", {"n": 64})


def wait_for(condition, limit_s=20.0):
    end_s = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.02)
    return found


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
