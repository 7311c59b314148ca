"""Write a distribution: a project with one worker, made of the worker's unchanged files.

Only `brand.py`, `__init__.py` and `decorators.py` are the distribution's own.
"""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
WORKERS = HERE.parent
SUFFIXES = {".py", ".sh"}
INSIDE = "workers"  # the subpackage that mirrors infra/workers
BRAND = "brand.py"
SHARED = ("__init__.py", "branding.py")  # of infra/workers itself
IMPORTED = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)
OTHERS = ("deployments", "flows", "gridbench", "infra", "tasks", "tests", "workloads")
MANIFEST = "graft tests\n"
CONFTEST = '''"""Let the tests import the workers by the name that they have in the repository of their source."""

import sys
from types import ModuleType

import {package}.workers

infra, workers = ModuleType("infra"), ModuleType("infra.workers")
workers.__path__ = {package}.workers.__path__
infra.workers = workers
sys.modules |= {{"infra": infra, "infra.workers": workers}}
'''


class Distribution(NamedTuple):
    """A project that can be installed by itself.

    The last of `folders` is the worker's own; `left_out` are files that only this repository uses.
    """

    name: str
    folders: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def folder(self) -> str:
        return self.folders[-1]

    @property
    def project(self) -> Path:
        return HERE / self.package


DISTRIBUTIONS = (
    Distribution("prefect-ssh", ("base", "processes", "ssh"), left_out=("ssh/lane_code.py",)),
    Distribution("prefect-aws-batch-worker", ("base", "batch")),
)


def sources(distribution: Distribution) -> dict[str, Path]:
    shared = {f"{INSIDE}/{name}": WORKERS / name for name in SHARED}
    for folder in distribution.folders:
        for path in sorted((WORKERS / folder).rglob("*")):
            name = path.relative_to(WORKERS).as_posix()
            if path.suffix in SUFFIXES and name not in distribution.left_out:
                shared[f"{INSIDE}/{name}"] = path
    own = {path.name: path for path in sorted(distribution.project.glob("*.py")) if path.name != BRAND}
    return shared | own | {f"{INSIDE}/{BRAND}": distribution.project / BRAND}


def own_tests(distribution: Distribution, tests: Path) -> dict[str, Path]:
    """Return the unit tests that need only the package; `tests` mirrors the workers' folder."""
    files = [name.removesuffix(".py").replace("/", ".") for name in sources(distribution)]
    modules = {f"infra.{name}".removesuffix(".__init__") for name in files}
    candidates = [
        path for folder in distribution.folders for path in sorted((tests / folder).glob("test_*.py"))
    ]
    return {
        path.relative_to(tests).as_posix(): path
        for path in candidates
        if all(
            module in modules or module.partition(".")[0] not in OTHERS
            for module in IMPORTED.findall(path.read_text())
        )
    }


def lay(distribution: Distribution, folder: Path, tests: Path | None = None) -> None:
    laid = {Path(distribution.package, name): path for name, path in sources(distribution).items()}
    laid |= {Path(name): distribution.project / name for name in ("pyproject.toml", "README.md")}
    if tests:
        laid |= {Path("tests", name): path for name, path in own_tests(distribution, tests).items()}
    for name, path in laid.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
    (folder / "MANIFEST.in").write_text(MANIFEST)
    if tests:
        (folder / "tests" / "conftest.py").write_text(CONFTEST.format(package=distribution.package))
