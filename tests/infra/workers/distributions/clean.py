"""An environment without this repository."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import prefect

ROOT = Path(__file__).parents[4]
# Settings by which pip and AWS's client reach their servers are the user's, too; the rest of this process's are not.
WITHHELD = ("PYTHON", "PREFECT_", "GRIDBENCH_", "VIRTUAL_ENV")


def brand_of(distribution):
    path = distribution.project / "brand.py"
    spec = importlib.util.spec_from_file_location(f"infra.workers.brand_of_{distribution.package}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BRAND


class Clean:
    """A virtual environment with Prefect alone, in a folder with the user's own files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "venv/bin"
        self.flows = folder / "flows"
        self.flows.mkdir()
        constraints = folder / "constraints.txt"
        locked = re.findall(r"^[\w.-]+==[^\s;\\]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
        constraints.write_text("\n".join(locked))
        self.variables = {"PIP_CONSTRAINT": str(constraints), "PREFECT_CLI_PROMPT": "false"}
        self.run(sys.executable, "-m", "venv", str(folder / "venv"))
        self.pip("install", f"prefect=={prefect.__version__}")

    @property
    def environment(self) -> dict[str, str]:
        theirs = {name: value for name, value in os.environ.items() if not name.startswith(WITHHELD)}
        return theirs | {"PATH": f"{self.bin}:{os.environ['PATH']}"} | self.variables

    def run(self, *command: str, cwd: Path | None = None, timeout: float = 900) -> str:
        done = subprocess.run(
            command,
            cwd=cwd or self.flows,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def pip(self, *words: str) -> str:
        return self.run(
            str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", *words
        )

    def python(self, *words: str) -> str:
        return self.run(str(self.bin / "python"), *words)

    def prefect(self, *words: str) -> str:
        return self.run(str(self.bin / "prefect"), *words)

    def worker(self, pool: str) -> subprocess.Popen:
        command = [str(self.bin / "prefect"), "worker", "start", "--pool", pool, "--name", "only"]
        with (self.folder / "worker.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.flows, env=self.environment, stdout=log, stderr=log)
