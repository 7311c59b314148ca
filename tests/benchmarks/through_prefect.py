"""Wall time of the quick suite through Prefect, over the same cells run bare. Goal: at most 1.3."""

import os
import subprocess
import sys
import tempfile
import time

from tests.benchmarks.stack import ROOT, run, stack

GOAL = 1.3


def bare_s() -> float:
    """Seconds that the quick suite takes on both local machines without Prefect."""
    started = time.perf_counter()
    for hardware, threads in (("local-cpu-1", ["--threads", "1"]), ("local-cpu", [])):
        with tempfile.TemporaryDirectory() as out:
            command = [
                sys.executable,
                "-m",
                "workloads",
                "suite",
                "quick",
                "--hardware",
                hardware,
                "--out",
                out,
            ]
            subprocess.run(
                [*command, *threads], cwd=ROOT, capture_output=True, check=False, env=dict(os.environ)
            )
    return time.perf_counter() - started


def main() -> None:
    """Run bare, through Prefect, and bare again, because machines drift."""
    with stack() as up:
        first_s = bare_s()
        through_s = run(up, "quick", ["local-cpu-1", "local-cpu"]).wall_s
        bare = (first_s + bare_s()) / 2
    print(
        f"quick suite through Prefect / bare: {through_s:.1f} s / {bare:.1f} s = {through_s / bare:.3f} (goal {GOAL})"
    )
