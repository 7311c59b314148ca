"""A user's packages over the machine's, which stay, as does torch."""

import hashlib
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import GridbenchError, one_line
from tasks.travel.cache import ENVIRONMENTS, cache_folders, locked_entry, mark_used, prune
from tasks.travel.requirements import ALL_HASHED, Wanted, is_the_machines, plain, wanted
from tasks.travel.secrets import without_logins
from tasks.travel.uv import call_uv

NOTE = "gridbench.json"  # written last: an environment without it is half made
PATH_FILE = "gridbench-machine.pth"
LOOK = """
import importlib.metadata, json, platform, site, sys, sysconfig
texts = [(d, d.read_text("METADATA")) for d in importlib.metadata.distributions()]
# Of several, the first one is imported.
found = [(d, text.partition("\\n\\n")[0]) for d, text in reversed(texts) if text]
here = {d.metadata["Name"]: (d.version, header) for d, header in found}
places = {str(d.locate_file("")) for d, _ in found}
places |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
places |= {site.getusersitepackages()} if site.ENABLE_USER_SITE else set()
paths = [path for path in sys.path if path in places]
facts = {"python": platform.python_version(), "base": sys.base_prefix, "paths": paths, "installed": here}
print(json.dumps(facts))
"""
LOOK_S = 60.0
# Nothing replaces build tools: a build would use the empty replacement.
BUILDERS = {
    "setuptools",
    "wheel",
    "hatchling",
    "flit-core",
    "poetry-core",
    "setuptools-scm",
    "cython",
    "pybind11",
}


@dataclass(frozen=True, slots=True)
class Environment:
    """A script's interpreter and packages.

    `packages`: those added to the machine's, as `name==version`, or an address without login.
    """

    python: Path
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachinePython:
    """A machine's Python and torch.

    Attributes:
        paths: of its packages.
        installed: their versions by name.
        headers: metadata by name, without description.
    """

    version: str
    base: str
    paths: tuple[str, ...]
    installed: Mapping[str, str]
    headers: Mapping[str, str]


def environment_for(
    folder: Path, file: str, python: Path, say: Callable[[str], None], least: Sequence[str] = ()
) -> Environment:
    """Return a folder's environment, made unless cached.

    Args:
        file: names the packages.
        python: the machine's interpreter.
        say: gets requested packages that are not installed, and others.
        least: `name==version` that the machine must have.

    Raises:
        GridbenchError: the packages can't be fetched, or need another torch.
    """
    here = look_at(python)
    asked = wanted(folder, file, here.installed, python)
    lacking = tuple(line for line in least if line.partition("==")[0] not in here.installed)
    for note in asked.notes:
        say(note)
    if not asked.lines and not lacking:
        return Environment(python)
    name = _name(asked, here, lacking)
    for cached in cache_folders(ENVIRONMENTS):
        if made := _made(cached / name):
            mark_used(cached / name)
            return made
    try:
        with locked_entry(ENVIRONMENTS, name) as path:
            if made := _made(path):  # by another process, meanwhile
                return made
            made = _make(path, asked, here, python, file, lacking)
        prune(ENVIRONMENTS)
    except OSError as error:
        raise GridbenchError(
            f"no environment can be made for {file} ({error.strerror or error}); free disk space, or name "
            "another folder in GRIDBENCH_KEPT"
        ) from None
    say(f"installed for {file}: {', '.join(made.packages) or 'nothing, all of it was there'}")
    return made


def look_at(python: Path) -> MachinePython:
    """Ask an interpreter for its version and packages.

    Raises:
        GridbenchError: it does not answer.
    """
    command = [str(python), "-P", "-c", LOOK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False)
        facts = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise GridbenchError(f"{python} does not say which packages it has: {one_line(error)}") from None
    found = {plain(name): pair for name, pair in facts["installed"].items()}
    versions, headers = ({name: pair[at] for name, pair in found.items()} for at in (0, 1))
    return MachinePython(facts["python"], facts["base"], tuple(facts["paths"]), versions, headers)


def _name(asked: Wanted, here: MachinePython, lacking: Sequence[str]) -> str:
    rows: list[object] = [
        asked.lines,
        asked.constraints,
        asked.options,
        lacking,
        here.version,
        here.base,
        here.paths,
    ]
    if asked.hashes or asked.all_hashed:
        rows += [sorted(asked.hashes.items()), asked.all_hashed]
    text = json.dumps([*rows, sorted(here.installed.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _made(path: Path) -> Environment | None:
    try:
        packages = json.loads((path / NOTE).read_text())["packages"]
    except (OSError, ValueError, KeyError):
        return None
    return Environment(path / "bin" / "python", tuple(packages))


def _make(
    path: Path, asked: Wanted, here: MachinePython, python: Path, file: str, lacking: Sequence[str]
) -> Environment:
    shutil.rmtree(path, ignore_errors=True)  # half made when the machine went down
    try:
        with tempfile.TemporaryDirectory(prefix="gridbench-packages-") as scratch:
            packages = [*_resolved(Path(scratch), asked, here, python, file), *lacking]
            _lay_over(path, here, python)
            _install(Path(scratch), path, packages, asked)
        told = [without_logins(package) for package in packages]  # records and logs contain them
        (path / NOTE).write_text(json.dumps({"packages": told}))
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return Environment(path / "bin" / "python", tuple(told))


def _resolved(scratch: Path, asked: Wanted, here: MachinePython, python: Path, file: str) -> list[str]:
    own = {name: version for name, version in here.installed.items() if is_the_machines(name)}
    for name in here.installed.keys() - BUILDERS:  # an index can lack them or be unreachable
        _stand_in(scratch / "own", name, here.installed[name], here.headers[name])
    pins = [f"{name}=={version}" for name, version in own.items()]
    (scratch / "asked.in").write_text("\n".join([*asked.options, *asked.lines, ""]))
    (scratch / "constraints.txt").write_text("\n".join([*asked.constraints, *pins, ""]))
    # Versions in the output file are preferred: installed ones stay if they fit.
    (scratch / "resolved.txt").write_text("".join(f"{n}=={v}\n" for n, v in sorted(here.installed.items())))
    words = ["--constraints", str(scratch / "constraints.txt"), "--find-links", str(scratch / "own")]
    words += ["--index-strategy", "unsafe-best-match", "--python", str(python)]  # as pip reads several
    words += ["--no-annotate", "--no-header", "--quiet", "-o", str(scratch / "resolved.txt")]
    try:
        call_uv("pip", "compile", str(scratch / "asked.in"), *words, names=asked.variables)
    except GridbenchError as error:
        torch = f" together with this machine's torch {own['torch']}" if "torch" in own else ""
        raise GridbenchError(f"{file} cannot be installed{torch}: {error}") from None
    lines = (scratch / "resolved.txt").read_text().split("\n")
    resolved = [line.partition(";")[0].strip() for line in lines]
    there = {f"{name}=={version}" for name, version in here.installed.items()}
    return [line for line in resolved if line and not line.startswith("-") and _is_new(line, there)]


def _is_new(line: str, there: set[str]) -> bool:
    name, _, rest = line.partition("==")
    bare = name.partition("[")[0].partition("@")[0].strip()
    return not is_the_machines(bare) and f"{plain(bare)}=={rest}" not in there


def _stand_in(folder: Path, name: str, version: str, header: str) -> None:
    """Write a wheel with only the version and its needs; it is never installed."""
    if is_the_machines(name):  # its needs are installed
        header = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"
    folder.mkdir(exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        info = f"{stem}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"{header}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def _lay_over(path: Path, here: MachinePython, python: Path) -> None:
    """Let its Python find its own packages first, then the machine's."""
    command = [str(python), "-P", "-m", "venv", "--without-pip", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GridbenchError(f"no environment can be made: {one_line(done.stderr or done.stdout)}")
    (site,) = path.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in here.paths]
    (site / PATH_FILE).write_text("\n".join([*lines, ""]))


def _install(scratch: Path, path: Path, packages: Sequence[str], asked: Wanted) -> None:
    if packages:
        lines = [" ".join([line, *(f"--hash={each}" for each in asked.hashes_of(line))]) for line in packages]
        (scratch / "install.txt").write_text("\n".join([*asked.options, *lines, ""]))
        words = ["--python", str(path / "bin" / "python"), "--no-deps", "--quiet"]
        words += ["--index-strategy", "unsafe-best-match", "--requirement", str(scratch / "install.txt")]
        words += [ALL_HASHED] if asked.all_hashed else []
        call_uv("pip", "install", *words, names=asked.variables)
