"""`python -m workloads` in its own process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command(*arguments):
    program = [sys.executable, "-m", "workloads", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "errors": "replace", "cwd": ROOT, "timeout": 120}
    found = subprocess.run(program, **options)
    return found.returncode, found.stdout, found.stderr
