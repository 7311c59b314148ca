"""Fill in and check a script's command before anything starts."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workloads.harness.records.case import Case, whole
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import LEFT, PORT, SEED, Serving
from workloads.harness.records.script import DATA, OWN, PLACE, Script
from workloads.harness.repeat.copies import check_folder
from workloads.harness.repeat.folder_contents import is_within


def own_case(script: Script, size: Mapping[str, int], name: str | None = None) -> Case:
    serving = script.program.serving if script.program else None
    words = serving.command if serving else script.command
    usual = Path(words[0]).stem if script.program else stem(words)
    case = Case.of(name or usual, {key: whole(key, size[key], 0) for key in size}, OWN)
    filled(script, case)
    return case


def stem(command: Sequence[str]) -> str:
    """Return `train` for `src/train.py` and for `-m package.train`."""
    target = command[1:2] if command[:1] == ("-m",) else command[:1]
    if not target or target[0].startswith("-"):
        text = repr(" ".join(command) or "nothing")
        raise WorkloadsError(
            f"the command is {text}; name a file, such as train.py --lr 1e-3, or -m and a module"
        )
    named = target[0].rpartition(".")[2] if command[0] == "-m" else Path(target[0]).stem
    return named.removesuffix("__main__") or "script"


def filled(script: Script, case: Case, seed: int = 0, port: int = 0, left_s: float = 0.0) -> tuple[str, ...]:
    """Return a script's command with placeholders filled in; `{seed}` only for other programs."""
    values = _values(script, case, seed, port, left_s)
    variables = script.program.env if script.program else ()
    serving = script.program.serving if script.program else None
    texts = (*script.command, *(value for _, value in variables), *(serving.command if serving else ()))
    places = {name for text in texts for name in PLACE.findall(text)}
    if DATA in places - values.keys():
        raise WorkloadsError("the command has {data}, but data is not given; give --data FOLDER")
    if DATA in values.keys() - places:
        raise WorkloadsError("data is given, but the command lacks its placeholder {data}")
    for name in sorted(places - values.keys()):
        raise WorkloadsError(
            f"the command has {{{name}}}, but size {name} is not given; give it, such as --size {name}=16"
        )
    for name, _ in case.size:
        if name not in places:
            raise WorkloadsError(
                f"size {name} is given, but the command lacks its placeholder {{{name}}}, such as --{name} {{{name}}}"
            )
    return _filled(script.command, values)


def filled_env(script: Script, case: Case, seed: int, port: int = 0) -> dict[str, str]:
    variables = dict(script.program.env if script.program else ())
    return dict(zip(variables, _filled(variables.values(), _values(script, case, seed, port)), strict=True))


def filled_serving(serving: Serving, script: Script, case: Case, seed: int, port: int) -> Serving:
    values = _values(script, case, seed, port)
    (ready,) = _filled([serving.ready], values)
    return replace(serving, command=_filled(serving.command, values), ready=ready)


def _filled(texts: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(PLACE.sub(lambda match: values[match[1]], text) for text in texts)


def _values(script: Script, case: Case, seed: int, port: int = 0, left_s: float = 0.0) -> dict[str, str]:
    values = {name: str(value) for name, value in case.size}
    if script.program:
        values[SEED] = str(seed)
        values |= {PORT: str(port), LEFT: f"{left_s:.0f}"} if script.program.serving else {}
    return values if script.data is None else values | {DATA: script.data}


def check_script(script: Script, world: int | None = None) -> None:
    """Raise WorkloadsError if a script cannot start here, as `world` ranks under torchrun."""
    folder = Path(script.folder)
    if not folder.is_dir():
        raise WorkloadsError(
            f"folder {script.folder} does not exist; name the folder that the script runs in"
        )
    if script.program is None:
        stem(script.command)
    is_file = "/" in script.command[0] if script.program else script.command[0] != "-m"
    if is_file and not (folder / script.command[0]).is_file():
        raise WorkloadsError(f"file {script.command[0]} does not exist in {folder.absolute()}")
    if not (script.whole or script.in_place):
        _check_folder(script)
    script.check()
    if world is not None and script.processes not in (1, world):
        raise WorkloadsError(
            f"torchrun started {world} ranks, but processes={script.processes}; leave processes out"
        )


def _check_folder(script: Script) -> None:
    folder = os.path.abspath(script.folder)
    check_folder(Path(folder))
    if script.command[0] == "-m" or script.program:
        return
    file = os.path.abspath(os.path.join(folder, script.command[0]))
    real, root = os.path.realpath(file), os.path.realpath(folder)
    if not (is_within(file, folder) or is_within(real, root)):
        raise WorkloadsError(
            f"file {script.command[0]} is outside of the folder {folder}, in a copy of which a repeat runs; "
            f"name its own one, such as --folder {os.path.dirname(real)}"
        )
