"""`python -m workloads script` over the scripts next to the tests, in its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path

from workloads.harness.records.record import Record

ROOT = Path(__file__).parents[4]
SCRIPTS = Path(__file__).parent / "server" / "scripts"


def start(*words, folder=SCRIPTS, environ=None, timeout_s=120):
    """Run the command; return exit code, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "workloads", "script", f"--folder={folder}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environ or {})},
        timeout=timeout_s,
    )
    return done.returncode, done.stdout, done.stderr


def measured(*words, **options):
    """Return the record of a briefly measured script."""
    _, out, err = start("--brief", *words, **options)
    assert out.count("\n") == 1, err
    json.loads(out)
    return Record.from_json(out)


def under_torchrun(*words, environ=None):
    """Return the record of a script that two ranks of torchrun measure briefly."""
    ranks = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "workloads", "script"]
    done = subprocess.run(
        [sys.executable, "-m", *ranks, "--brief", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environ or {})},
        timeout=120,
    )
    assert done.stdout.count("\n") == 1, done.stderr
    return Record.from_json(done.stdout)
