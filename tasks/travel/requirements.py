"""Requirements of requirements.txt, pyproject.toml or uv.lock."""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.travel.secrets import without_logins
from tasks.travel.uv import call_uv

FILES = ("uv.lock", "requirements.txt", "pyproject.toml")  # the most exact one first
OWN = ("torch", "numpy", "psutil", "triton", "pytorch-triton")  # always the machine's
NVIDIA, NVML = "nvidia-", "nvidia-ml-py"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
OPTIONS = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--pre")
IGNORED = ("--trusted-host", "--no-binary", "--only-binary", "--prefer-binary", "--use-")
ALL_HASHED = "--require-hashes"
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
HASH = re.compile(r"\s--hash[= ](\S+)")
ITSELF = (".", "./", "-e .", "-e ./", "--editable .", "--editable ./")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Packages besides the machine's.

    Attributes:
        lines: requirements.
        constraints: on dependencies.
        options: indexes, as in a requirements.txt.
        hashes: of allowed files, by name; without any, each is allowed.
        all_hashed: refuse packages without a hash.
        notes: on required packages that are the machine's own.
    """

    lines: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    hashes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    all_hashed: bool = False
    notes: tuple[str, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """Return the machine's variables that lines and options name, such as a login's."""
        return frozenset(VARIABLE.findall(" ".join((*self.lines, *self.constraints, *self.options))))

    def hashes_of(self, line: str) -> tuple[str, ...]:
        """Return hashes for a requirement."""
        found = NAME.match(line)
        return self.hashes.get(plain(found[0]), ()) if found else ()


def packages_file(folder: Path) -> str | None:
    """Return the most exact file that names packages."""
    return next((name for name in FILES if (folder / name).is_file()), None)


def check_packages(folder: Path, file: str) -> None:
    """Refuse packages that no machine can install, before one is paid.

    A lock is read only on the machine.

    Raises:
        GridbenchError: the file has one.
    """
    if Path(file).name != "uv.lock":
        wanted(folder, file, {}, Path(sys.executable))


def is_the_machines(name: str) -> bool:
    """Return whether it stays as the machine has it, and is never installed."""
    name = plain(name)
    return name in OWN or (name.startswith(NVIDIA) and name != NVML)


def plain(name: str) -> str:
    """Return the name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(folder: Path, file: str, installed: Mapping[str, str], python: Path) -> Wanted:
    """Read a folder's requirements.

    Args:
        file: one of `FILES`, or another requirements file.
        installed: versions here, by name.
        python: for which a lock is read.

    Raises:
        GridbenchError: the file is missing or requires something uninstallable.
    """
    path = folder / file
    if not path.is_file():
        raise GridbenchError(
            f"packages={file!r} is not a file in the code folder {folder}, which has {_there(folder)}"
        )
    if path.name == "uv.lock":
        rows = [("", line) for line in _lines(_of_lock(path, python))]
    elif path.name == "pyproject.toml":
        rows = [("", line) for line in _of_project(path)]
    else:
        rows = list(_of_file(folder, path, ""))
    lines: list[str] = []
    constraints: list[str] = []
    options: dict[str, None] = {}
    notes: dict[str, None] = {}
    hashes: dict[str, tuple[str, ...]] = {}
    for kind, row in rows:
        line = HASH.sub("", row).strip()
        if line.startswith("-") and not line.startswith("-e "):  # a lock names a part of a workspace so
            options[line] = None
        elif is_the_machines(name := name_of(line, file)):
            notes |= dict.fromkeys(_note(line, file, installed) if kind == "" else [])
        else:
            (constraints if kind else lines).append(line)
            if found := HASH.findall(row):
                hashes[name] = (*hashes.get(name, ()), *found)
    all_hashed = options.pop(ALL_HASHED, 0) is None
    return Wanted(tuple(lines), tuple(constraints), tuple(options), hashes, all_hashed, tuple(notes))


def name_of(line: str, file: str) -> str:
    """Return the required package.

    Raises:
        GridbenchError: a path or address without a name.
    """
    found = NAME.match(line)
    if found is None or "/" in line.partition("@")[0].partition(";")[0]:
        raise GridbenchError(
            f"{file} asks for {without_logins(line)[:80]!r}, which has no name of a package; name one, or "
            "have the code import it from its own folder"
        )
    return plain(found[0])


def _there(folder: Path) -> str:
    return ", ".join(name for name in FILES if (folder / name).is_file()) or "none of " + ", ".join(FILES)


def _note(line: str, file: str, installed: Mapping[str, str]) -> list[str]:
    name = name_of(line, file)
    here = installed.get(name)
    asked = without_logins(line.partition(";")[0].strip())
    if here is None:
        return [f"{file} asks for {asked}, which is not installed: {name} is the machine's own matter"]
    public = here.partition("+")[0]
    same = asked.replace(" ", "").endswith((f"=={here}", f"=={public}")) or NAME.fullmatch(asked)
    return [] if same else [f"{file} asks for {asked}, and this machine's {name} {here} is used"]


def _of_lock(path: Path, python: Path) -> str:
    words = ("export", "--frozen", "--no-header", "--no-annotate", "--no-emit-project")
    return call_uv(*words, "--directory", str(path.parent), "--python", str(python))


def _of_project(path: Path) -> list[str]:
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        project, sources = text.get("project", {}), text.get("tool", {}).get("uv", {}).get("sources", {})
    except (OSError, ValueError, RecursionError) as error:  # the last for nested brackets
        raise GridbenchError(f"{path} can't be read: {error}") from None
    if "dependencies" in project.get("dynamic", []):
        raise GridbenchError(
            f"{path.name} finds its dependencies only when it is built; name them in requirements.txt"
        )
    lines = [str(line) for line in project.get("dependencies", [])]
    elsewhere = {plain(name) for name in sources}
    if named := [
        n for n in (name_of(line, path.name) for line in lines) if n in elsewhere and not is_the_machines(n)
    ]:
        raise GridbenchError(
            f"{path.name} takes {named[0]} from [tool.uv.sources], which only a lock tells in full; "
            "run `uv lock` and give uv.lock as the packages"
        )
    return lines


def _of_file(folder: Path, path: Path, kind: str) -> Iterator[tuple[str, str]]:
    """Yield lines, also of included files; constraints with `c`."""
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise GridbenchError(f"{path.name} is named by a requirements file but does not exist in {folder}")
    for line in _lines(path.read_text(errors="replace")):
        word, _, rest = (
            line.replace("=", " ", 1).partition(" ") if line.startswith("--") else line.partition(" ")
        )
        if line in ITSELF or word.startswith(IGNORED):
            continue  # the code itself is found by its folder
        if line == ALL_HASHED:
            yield kind, line
            continue
        if word in ("-r", "--requirement", "-c", "--constraint"):
            further = path.parent / rest.strip()
            yield from _of_file(folder, further, kind or ("c" if word in ("-c", "--constraint") else ""))
        elif word in OPTIONS:
            yield kind, _option(path.parent, word, rest.strip())
        elif line.startswith("-"):
            raise GridbenchError(
                f"{path.name} has {without_logins(line)[:80]!r}, which is not understood here; leave it out"
            )
        else:
            yield kind, line


def _option(folder: Path, word: str, value: str) -> str:
    if word in ("-f", "--find-links") and (folder / value).is_dir():
        value = str((folder / value).resolve())
    return f"{word} {value}".rstrip()


def _lines(text: str) -> list[str]:
    whole = re.sub(r"\\\r?\n", " ", text)
    bare = (re.sub(r"(^|\s)#.*", "", line) for line in whole.splitlines())
    return [line for line in map(str.strip, bare) if line]
