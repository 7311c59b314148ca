"""A frozen copy of this environment."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

from infra.images.errors import ImageError
from workloads.harness.probes.frozen import CODE, MARK, PACKAGES, content_id, versions
from workloads.harness.records.places import home
from workloads.harness.repeat.control import environ_of_reference

NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", MARK)
ASK = "from workloads.harness.probes import frozen; print(frozen.reference_id() or '')"
WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reference:
    """A frozen environment: its id, and the command that measures a repeat in it."""

    id: str
    command: tuple[str, ...]


def freeze(folder: Path, say: Say) -> Reference:
    """Freeze the present environment into `folder`, unless it is there already.

    Copies the installed packages, this checkout's workloads, and those of GRIDBENCH_WORKLOADS.
    """
    folder = folder.absolute()
    with tempfile.TemporaryDirectory(prefix="gridbench-reference-") as name:
        code = Path(name) / "workloads"
        collect_code(code)
        expected_id = content_id(code, versions())
        if folder.exists():
            return _same(folder, expected_id)
        try:
            _install(folder, Path(name), say)
            _put_code(folder, code, expected_id)
            if (made := id_of(folder)) != expected_id:
                raise ImageError(f"{folder} came out as {made or 'no reference'}, not as {expected_id}")
        except BaseException as error:  # an incomplete folder must not look like a reference
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise ImageError(f"{folder} can't be made ({error.strerror}); name another") from None
            raise
    return Reference(expected_id, command_of(folder))


def standing(say: Say) -> Reference:
    """Return this machine's reference, which the first call freezes; it stays until its folder is deleted."""
    data = Path(os.environ.get("XDG_DATA_HOME") or home() / ".local" / "share")
    folder = data / "gridbench" / "reference"
    try:
        frozen_id = id_of(folder)
    except ImageError:  # incomplete: the machine stopped during the freeze
        frozen_id = None
    if frozen_id:
        return Reference(frozen_id, command_of(folder))
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return freeze(folder, say)


def command_of(folder: Path) -> tuple[str, ...]:
    return (str(_python(folder)), "-P", "-m", "workloads")


def id_of(folder: Path) -> str | None:
    """Raise `ImageError` if the reference's Python fails."""
    try:
        return _call([str(_python(folder)), "-P", "-c", ASK]) or None
    except OSError:
        return None


def collect_code(target: Path, environ: dict[str, str] | None = None) -> None:
    shutil.copytree(CODE, target, ignore=NOT_COPIED)
    more = (os.environ if environ is None else environ).get("GRIDBENCH_WORKLOADS")
    if more and not Path(more).is_dir():
        raise ImageError(f"GRIDBENCH_WORKLOADS={more} is not a folder; name a folder with workload files")
    for path in sorted(Path(more).glob("[!_]*.py")) if more else ():
        if (target / path.name).exists():
            raise ImageError(f"{path} has the name of an existing workload; rename it")
        shutil.copyfile(path, target / path.name)


def _same(folder: Path, expected_id: str) -> Reference:
    try:
        present_id = id_of(folder)
    except ImageError:  # an environment of another program, or a file
        present_id = None
    if present_id == expected_id:
        return Reference(expected_id, command_of(folder))
    what = f"holds reference {present_id}" if present_id else "exists and holds no reference"
    raise ImageError(f"{folder} {what}, but the environment here is {expected_id}; name a new folder")


def _install(folder: Path, scratch: Path, say: Say) -> None:
    needed = _needed()
    say(f"an environment in {folder}: {', '.join(f'{name} {d.version}' for name, d in needed.items())}")
    _call([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    if all(distribution.files for distribution in needed.values()):
        site = Path(_call([str(_python(folder)), "-P", "-c", WHERE]))
        for distribution in needed.values():
            _link(distribution, site)
    else:  # another tool than pip installed them, without a list of their files
        _install_by_pip(folder, scratch)


def _needed() -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    names = [*PACKAGES]
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop(0)).lower()
        here = next(iter(distributions(name=name)), None)
        if name not in found and here:
            found[name] = here
            wanted = (line for line in here.requires or () if "extra ==" not in line)
            names += [match[0] for line in wanted if (match := re.match(r"[\w.-]+", line))]
    return found


def _link(distribution: Distribution, site: Path) -> None:
    """Link a package's files into another site-packages, or copy them if the file system has no links.

    Links are safe: installers replace files and never write into them.
    """
    for file in distribution.files or ():
        source, target = Path(str(distribution.locate_file(file))), site / file
        if ".." in file.parts or not source.is_file():  # scripts, and files that the user has deleted
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileExistsError:  # in a namespace that several packages share
            continue
        except OSError:
            shutil.copy2(source, target)


def _install_by_pip(folder: Path, scratch: Path) -> None:
    installed = {name: version for name, version in versions().items() if version}
    requirements = [f"{name}=={installed[name]}" for name in PACKAGES if name in installed]
    constraints = scratch / "constraints.txt"
    constraints.write_text("\n".join(f"{d.name}=={d.version}" for d in distributions() if d.name) + "\n")
    _call([str(_python(folder)), "-m", "ensurepip"])
    options = ["--quiet", "--disable-pip-version-check", "--constraint", str(constraints)]
    _call([str(_python(folder)), "-m", "pip", "install", *options, *requirements])


def _put_code(folder: Path, code: Path, reference_id: str) -> None:
    package = Path(_call([str(_python(folder)), "-P", "-c", WHERE])) / "workloads"
    shutil.copytree(code, package)
    note = {"id": reference_id, "frozen_at": datetime.now(UTC).isoformat(timespec="seconds"), **versions()}
    (package / MARK).write_text(json.dumps(note, indent=1) + "\n")
    _call([str(_python(folder)), "-m", "compileall", "-q", str(package)])


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _call(command: Sequence[str]) -> str:
    env = environ_of_reference()
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise ImageError(f"{' '.join(command[:4])} failed: {lines[-1]}")
    return done.stdout.strip()
