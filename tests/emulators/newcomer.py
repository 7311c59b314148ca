"""A newcomer's terminal: an empty home directory, a checkout, and the answer y."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from gridbench.run.session import ROOT

CHECKOUT = (
    "deployments",
    "flows",
    "gridbench",
    "infra",
    "tasks",
    "workloads",
    "prefect.yaml",
    "pyproject.toml",
    "requirements.lock",
)


def copy_of_checkout(folder):
    folder.mkdir()
    for name in CHECKOUT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


class Shell:
    """A terminal in the checkout with an empty home directory, which answers y."""

    def __init__(self, folder, environment, checkout=ROOT):
        self.checkout = checkout
        self.home = folder / "home"
        self.home.mkdir()
        (folder / "bin").mkdir()
        self.path = folder / "bin"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "GRIDBENCH_"))
        }
        path = f"{self.path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {
            "HOME": str(self.home),
            "PATH": path,
            "GRIDBENCH_STATE": str(folder / "state"),
            "GRIDBENCH_RESULTS": str(folder / "results"),
            "GRIDBENCH_BOX_LOCK": str(folder / "box.lock"),
            "COLUMNS": "200",
        }
        self.environment = kept | own | environment

    def program(self, name, script, **variables):
        path = self.path / name
        path.write_text(f"#!{sys.executable} -P\n{script}")
        path.chmod(0o755)
        self.environment |= variables

    def __call__(self, command, timeout=900):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.checkout,
            env=self.environment,
            input="y\n" * 5,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return done.returncode, done.stdout + done.stderr

    def processes(self):
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.home):
                    found.append(process.cmdline())
        return found
