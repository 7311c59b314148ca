"""Lay out a distribution: a project of its own with one of our workers, from the one copy of its source.

What lies in the workers' folders is copied under the name of the distribution's package, and every word of
ours in it becomes one of the distribution's: the names of our modules, and those that a worker leaves on
boxes and in runs. A file of the distribution's own takes the place of ours.
"""

import re
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
WORKERS = HERE.parent
SUFFIXES = {".py", ".sh"}
OURS = "infra.workers."
OTHERS = re.compile(
    r"^\s*(from|import) (deployments|flows|gridbench|infra|tasks|tests|workloads)\b", re.MULTILINE
)
MANIFEST = "graft tests\n"


class Distribution(NamedTuple):
    """A project that is installed by itself.

    Attributes:
        name: on an index.
        folders: each of ours with its place in the package; the worker's own folder is the package itself.
        words: each of ours with its own, put in this order.
    """

    name: str
    folders: tuple[tuple[str, str], ...]
    words: tuple[tuple[str, str], ...]

    @property
    def package(self) -> str:
        """Return the name that Python imports."""
        return self.name.replace("-", "_")

    @property
    def folder(self) -> str:
        """Return the worker's own folder."""
        return next(folder for folder, place in self.folders if not place)

    @property
    def project(self) -> Path:
        """Return the folder of what is its own: pyproject.toml, README.md, __init__.py and other files."""
        return HERE / self.package

    def adapt(self, text: str) -> str:
        """Return a source with the distribution's words for ours."""
        for ours, own in self.words:
            text = text.replace(ours, own)
        return self.with_own_modules(text)

    def with_own_modules(self, text: str) -> str:
        """Return a source that names the package's modules in place of ours."""
        for folder, place in self.folders:
            text = text.replace(f"{OURS}{folder}", f"{self.package}.{place}".rstrip("."))
        return text


DISTRIBUTIONS = (
    Distribution(
        "prefect-ssh",
        (("base", "base"), ("processes", "trees"), ("ssh", "")),
        (
            ("/home/gridbench/.gridbench/kept", "/kept"),
            ("dev.gridbench.measuring", "dev.prefect-ssh.container"),
            ("measuring job", "job"),
            ("nobody measures", "nobody has the box"),
            ("while others measure", "while others have the box"),
            ("measured the pause", "had the pause"),
            ("would measure twice", "would do all twice"),
            ("as a measurement needs it", "as a benchmark needs it"),
            ("infra/workers/processes", "trees"),
            ("The lane", "The job"),
            ("the lane", "the job"),
            ("a lane", "a job"),
            ("Lanes", "Jobs"),
            ('"torch"', '"prefect"'),  # of the box's Python
            ("_with_torch", "_with_prefect"),
            ("torch", "Prefect"),
            ("measures for somebody else", "is taken by somebody else"),
            ("GRIDBENCH_", "SSH_WORKER_"),
            ("gridbench", "prefect-ssh"),
        ),
    ),
    Distribution(
        "prefect-aws-batch-worker",
        (("base", "base"), ("batch", "")),
        (("GRIDBENCH_", "AWS_BATCH_WORKER_"), ("gridbench", "aws-batch")),
    ),
)


def sources(distribution: Distribution) -> dict[str, Path]:
    """Return the files of the package: paths in it, with the files of ours that they are made from."""
    laid: dict[str, Path] = {}
    for folder, place in distribution.folders:
        laid |= {Path(place, name).as_posix(): path for name, path in _files(WORKERS / folder).items()}
    return laid | _files(distribution.project)


def own_tests(distribution: Distribution, tests: Path) -> dict[str, Path]:
    """Return the unit tests that need nothing but the package; `tests` mirrors the workers' folder."""
    own = _files(distribution.project).keys() - {"__init__.py"}
    others = [OTHERS, *(re.compile(rf"\b{distribution.package}\.{Path(name).stem}\b") for name in own)]
    candidates = [
        path for folder, _ in distribution.folders for path in sorted((tests / folder).glob("test_*.py"))
    ]
    return {
        path.relative_to(tests).as_posix(): path
        for path in candidates
        if not any(each.search(distribution.with_own_modules(path.read_text())) for each in others)
    }


def lay(distribution: Distribution, folder: Path, tests: Path | None = None) -> None:
    """Write the project into a new folder; `tests` is the folder of the workers' tests."""
    laid = {Path(distribution.package, name): path for name, path in sources(distribution).items()}
    if tests:
        laid |= {Path("tests", name): path for name, path in own_tests(distribution, tests).items()}
    for name, path in laid.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(distribution.adapt(path.read_text()))
    for own in ("pyproject.toml", "README.md"):
        (folder / own).write_text((distribution.project / own).read_text())
    (folder / "MANIFEST.in").write_text(MANIFEST)


def _files(folder: Path) -> dict[str, Path]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(folder).as_posix(): path for path in paths}
