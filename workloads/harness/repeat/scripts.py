"""Users' scripts as cases of a suite: its tables `[[scripts]]`, read strictly."""

import itertools
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.harness.records.case import HELPERS, Case, whole
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.script import DATA, OWN, PLACE, Script
from workloads.harness.registry import declared
from workloads.harness.repeat.copies import check_folder
from workloads.harness.repeat.tables import check_keys, choices_of

KEYS = {
    **dict.fromkeys(("name", "run", "folder", "packages", "data", "keep", "image", "device", "step_of"), str),
    **dict.fromkeys(("steps", "epochs", "through", "samples", "processes", "threads"), int),
    **{"size": dict, "whole": bool, "estimate_s": float},
}
LONGEST_IMAGE = 500  # characters
ESTIMATE_S = 90.0  # of a repeat before the first measurement: the engine seldom needs longer
S3 = "s3://"
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
PACKAGES = ("pyproject.toml", "uv.lock")  # besides files of requirements, whose names end in .txt

# A registry, a path, a tag and a digest; no place for a login.
_IMAGE = re.compile(r"[A-Za-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")
_NAME = re.compile(r"\w[\w.-]{0,59}")
_SIZE_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_PYTHON = re.compile(r"python[\d.]*")


def script_cases(entry: Any, here: Path) -> list[tuple[Case, Script]]:
    """Return a table's cases with their scripts; relative paths start at `here`."""
    check_keys(entry, KEYS, "a script")
    if "run" not in entry:
        raise WorkloadsError('a script lacks the key run, such as run = "train.py --batch {batch}"')
    words = command_words(entry["run"])
    folder = code_folder(entry, here, is_copied=not entry.get("whole", False))
    if words[0] != "-m":
        check_program(words, folder)
    usual = words[1].rpartition(".")[2] if words[0] == "-m" else Path(words[0]).stem
    name, choices = case_name(entry, usual), choices_of(entry.get("size", {}))
    places = placed(words, choices, has_data="data" in entry)
    script = Script(
        command=words,
        folder=str(folder),
        packages=packages_in(entry.get("packages"), folder),
        data=data_in(entry.get("data"), here),
        steps=entry.get("steps"),
        epochs=entry.get("epochs"),
        through=entry.get("through"),
        step_of=entry.get("step_of"),
        samples=entry.get("samples"),
        processes=entry.get("processes", 1),
        whole=entry.get("whole", False),
        keep=folder_in(entry.get("keep"), here),
        image=image_in(entry.get("image")),
    )
    script.check()
    sizes = {placeholder: choices[placeholder] for placeholder in places}
    return [(case, script) for case in cases_of(name, sizes)]


def code_folder(entry: Mapping[str, Any], here: Path, is_copied: bool = True) -> Path:
    """Return a command's folder; a home is refused if it `is_copied`."""
    stated = entry.get("folder", ".")
    folder = (here / Path(stated).expanduser()).resolve()
    if not folder.is_dir():
        raise WorkloadsError(f"folder is {stated!r}, but {folder} is not a folder")
    if is_copied:
        check_folder(folder)
    return folder


def command_words(run: str) -> tuple[str, ...]:
    return python_words(split(run))


def split(run: str) -> list[str]:
    try:
        return shlex.split(run)
    except ValueError as error:
        raise WorkloadsError(f"run is {run!r}, which can't be split into words: {error}") from None


def python_words(words: Sequence[str]) -> tuple[str, ...]:
    left = [*words]
    if left and _PYTHON.fullmatch(Path(left[0]).name):
        left = left[1:]
    if not left or not left[0].strip() or left == ["-m"]:
        raise WorkloadsError(f"run is {shlex.join(words)!r}; give a file, or -m and a module")
    if Path(left[0]).name in LAUNCHERS:
        raise WorkloadsError(
            f"run begins with {left[0]}; give the script alone, and its ranks as processes = 2"
        )
    if left[0].startswith("-") and left[0] != "-m":
        raise WorkloadsError(f"run begins with {left[0]!r}; give a file, or -m and a module")
    return tuple(left)


def check_program(words: Sequence[str], folder: Path) -> None:
    """Refuse a file outside the folder, because only the folder travels."""
    file = (folder / words[0]).resolve()
    if not file.is_relative_to(folder):
        raise WorkloadsError(f"run names {words[0]!r}, which is outside the folder {folder}")
    if not file.is_file():
        raise WorkloadsError(f"run names the file {words[0]!r}, which is missing in {folder}")


def case_name(entry: Mapping[str, Any], usual: str) -> str:
    name: str = entry.get("name", usual)
    if not _NAME.fullmatch(name):
        raise WorkloadsError(f"name is {name!r}; use up to 60 letters, digits, dots, dashes and underscores")
    if declared(name):
        raise WorkloadsError(
            f'name {name!r} is the name of a workload; choose another, such as name = "my-{name}"'
        )
    return name


def placed(
    words: Sequence[str], choices: Mapping[str, Any], has_data: bool, others: Collection[str] = ()
) -> list[str]:
    """Return the sizes in the order of their placeholders in the command; `others` need none."""
    run, places = shlex.join(words), dict.fromkeys(PLACE.findall(" ".join(words)))
    if has_data and DATA not in places:
        raise WorkloadsError(f"data is given, but run lacks its placeholder {{{DATA}}}")
    for name in choices:
        if name in (DATA, *HELPERS, *others):
            raise WorkloadsError(f"size {name!r} is a reserved name; choose another")
        if not _SIZE_NAME.fullmatch(name):
            raise WorkloadsError(f"size {name!r} must be lower-case letters, digits and underscores")
        if name not in places:
            raise WorkloadsError(f"size {name} is given, but run lacks its placeholder {{{name}}}")
    for placeholder in places:
        if placeholder == DATA and not has_data:
            raise WorkloadsError(f"run is {run!r}; {{data}} needs the key data: a folder or an {S3} address")
        if placeholder not in (DATA, *others, *choices):
            raise WorkloadsError(
                f"run is {run!r}; {{{placeholder}}} has no size: give --size {placeholder}=VALUE, "
                f"or size = {{ {placeholder} = […] }} in a suite"
            )
    return [placeholder for placeholder in places if placeholder not in (DATA, *others)]


def packages_in(given: str | None, folder: Path) -> str | None:
    if given is None:
        return None
    file = (folder / given).resolve()
    if not (file.name in PACKAGES or file.suffix == ".txt"):
        raise WorkloadsError(f"packages is {given!r}; give requirements.txt, {' or '.join(PACKAGES)}")
    if not (file.is_relative_to(folder) and file.is_file()):
        raise WorkloadsError(f"packages is {given!r}, but {folder} has no such file")
    return str(file.relative_to(folder))


def data_in(given: str | None, here: Path) -> str | None:
    """Return an address as it is, or an absolute path, perhaps of another machine."""
    if given is None or given.startswith(S3):
        return given
    if not given or "://" in given:
        raise WorkloadsError(f"data is {given!r}; give a folder on the machine, or an {S3} address")
    return folder_in(given, here)


def folder_in(given: str | None, here: Path) -> str | None:
    if given == "":
        raise WorkloadsError("keep is ''; give a folder of the machine that measures")
    return None if given is None else str(here.absolute() / Path(given).expanduser())


def image_in(given: str | None) -> str | None:
    """Return the name of a container image, which contains no login."""
    if given is not None and not (len(given) <= LONGEST_IMAGE and _IMAGE.fullmatch(given)):
        raise WorkloadsError(
            "image is not the name of a container image, such as vllm/vllm-openai:v0.11.0; "
            "the login of a registry belongs to the machine or the cluster"
        )
    return given


def cases_of(name: str, choices: Mapping[str, tuple[Any, ...]]) -> list[Case]:
    if empty := [size for size, values in choices.items() if not values]:
        raise WorkloadsError(f"size {empty[0]} is [], which makes no case; give at least one value")
    sound = {size: dict.fromkeys(whole(size, v, least=0) for v in vs) for size, vs in choices.items()}
    return [
        Case.of(name, dict(zip(sound, values, strict=True)), OWN)
        for values in itertools.product(*sound.values())
    ]
