"""Check a user's command, and write its suite."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import Field, PositiveFloat, PositiveInt

from tasks.errors import GridbenchError
from tasks.schema import Strict
from tasks.store.store import Store, runs
from tasks.travel.git import names_in
from workloads.harness.records.case import Case, Cell, parse_size
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text
from workloads.harness.records.grade import counts
from workloads.harness.repeat.commands import command_cases
from workloads.harness.repeat.scripts import script_cases

FOLDER = "suites"  # in the results folder, so that nothing is written next to the user's code
LOOKED_AT = 50  # newest runs that are searched for the time of a repeat


class OwnCase(Strict):
    """A command and options: the keys of a suite and a command's table.

    Attributes:
        folder: absolute.
        size: values by placeholder.
        repeats, timeout_s: the suite's defaults if None.
    """

    folder: str
    name: str | None = None
    size: dict[str, list[int]] = Field(default_factory=dict)
    packages: str | None = None
    data: str | None = None
    keep: str | None = None
    image: str | None = None
    repeats: PositiveInt | None = None
    timeout_s: PositiveInt | None = None
    estimate_s: PositiveFloat | None = None


class OwnScript(OwnCase):
    """A table `[[scripts]]`; `run` is as a shell splits it."""

    run: str
    steps: int | None = None
    epochs: int | None = None
    through: int | None = None
    step_of: str | None = None
    samples: int | None = None
    processes: int | None = None
    whole: bool = False


class OwnCommand(OwnCase):
    """A table `[[commands]]`; without `run` our load is the client."""

    run: str | None = None
    metrics: list[str] = Field(default_factory=list)
    warm_ups: PositiveInt | None = None
    env: dict[str, str] = Field(default_factory=dict)
    serve: str | None = None
    ready: str | None = None
    ready_timeout_s: PositiveFloat | None = None
    slo: dict[str, str] = Field(default_factory=dict)
    load: dict[str, str] = Field(default_factory=dict)


OF_SUITE = ("repeats", "timeout_s")


def sizes_of(given: Iterable[str]) -> dict[str, list[int]]:
    """Read sizes such as `batch=16,32`, as words or separated by blanks.

    Raises:
        GridbenchError: another form, or given twice.
    """
    sizes: dict[str, list[int]] = {}
    for word in (word for text in given for word in text.split()):
        name, equals, values = word.partition("=")
        if not (name and equals and values):
            raise GridbenchError(f"size {word!r} is not of the form name=number,number, such as batch=16,32")
        if name in sizes:
            raise GridbenchError(f"size {name} is given twice; give all of its values at once: {name}=16,32")
        try:
            sizes[name] = [parse_size(f"{name}={value}")[name] for value in values.split(",") if value]
        except WorkloadsError as error:
            raise GridbenchError(str(error)) from None
    return sizes


def write_suite(own: OwnScript | OwnCommand, results: Path) -> Path:
    """Return the path of the suite's file.

    Earlier measurements of the same sizes become the estimate.

    Raises:
        GridbenchError: not measurable like this, or not writable.
    """
    try:
        read = script_cases if isinstance(own, OwnScript) else command_cases
        cases = [case for case, _ in read(_table(own), Path(own.folder))]
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None
    name = cases[0].workload
    if own.estimate_s is None:
        usual_s = measured_s(results, cases)
        own = own.model_copy(update={"estimate_s": usual_s and round(usual_s, 1)})
    path = results.absolute() / FOLDER / f"{name}.toml"
    try:
        write_text(path, suite_text(own.model_copy(update={"name": name})))
    except (WorkloadsError, OSError) as error:
        raise GridbenchError(f"results: {error}") from None
    inner, outer = path.resolve(), Path(own.folder).resolve()
    if inner.is_relative_to(outer) and inner.relative_to(outer).as_posix() in names_in(outer):
        path.unlink()  # as part of the code it would change the code's id with each run
        where = f"results is {results}, inside of the code's folder {own.folder}"
        raise GridbenchError(f"{where}: name another, or have git ignore it")
    return path


def measured_s(results: Path, cases: Sequence[Case]) -> float | None:
    """Return the slowest case's median seconds in the newest run with one."""
    for run in list(runs(results))[:LOOKED_AT]:
        store = Store(results / run)
        try:
            planned = {each.case for each in store.plan.cases if each.script}
            records = store.records()[0] if planned.intersection(cases) else []
        except GridbenchError:
            continue
        walls_s: dict[Cell, list[float]] = {}
        for record in records:
            if record.case in cases and (record.wall or counts(record)):
                walls_s.setdefault(record.cell, []).append(record.wall_s)
        if walls_s:
            return max(map(statistics.median, walls_s.values()))
    return None


def _table(own: OwnCase) -> dict[str, object]:
    given = own.model_dump(exclude_none=True, exclude={*OF_SUITE})
    return {key: value for key, value in given.items() if value not in ({}, []) and value is not False}


def suite_text(own: OwnCase) -> str:
    """Return a suite file."""
    head = own.model_dump(include={*OF_SUITE}, exclude_none=True)
    kind = "script" if isinstance(own, OwnScript) else "command"
    lines = [f"title = {json.dumps(f'The {kind} {own.name}')}", *_pairs(head), "", f"[[{kind}s]]"]
    return "\n".join([*lines, *_pairs(_table(own))]) + "\n"


def _pairs(values: Mapping[str, object]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items()]


def _toml(value: object) -> str:
    """Write as JSON, which TOML shares; tables are inline."""
    if isinstance(value, dict):
        return f"{{ {', '.join(_pairs(value))} }}"
    return json.dumps(value, ensure_ascii=False)
