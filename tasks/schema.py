"""Strict reading of data from files."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.errors import GridbenchError

Model = TypeVar("Model", bound="Strict")

# Bounds far above any sensible value: a slip of the hand is refused before a machine is paid for.
LONGEST_S = 14 * 86_400.0  # the longest time limit of a job, too
MOST_GPUS = 1024
MOST_REPEATS = 10_000
MOST_BOXES = 1000
MOST_USD = 1e9
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_S)]
Waited = Annotated[float, Field(gt=0, le=LONGEST_S)]


class Strict(BaseModel):
    """Data from a file, which refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read YAML.

    Raises:
        GridbenchError: unreadable, or not a mapping.
    """
    try:
        raw = yaml.safe_load(path.read_text())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise GridbenchError(
            f"{path.name} can't be read{where}: {error.problem or error.context or 'this is not YAML'}"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise GridbenchError(f"{path.name} can't be read: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise GridbenchError(f"{path.name} can't be read: its brackets are nested too deeply") from None
    if not isinstance(raw, dict):
        raise GridbenchError(f"{path.name} holds {type(raw).__name__}, expected keys with values")
    return raw


def validated(kind: type[Model], raw: dict[str, Any], where: str) -> Model:
    """Return data as a model.

    Raises:
        GridbenchError: a mistake; the sentence begins with `where`.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise GridbenchError(f"{where}: {first_mistake(error, kind)}") from None


def first_mistake(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """Return field, value and expected value.

    For an unknown key it suggests the nearest missing one, or the nearest of `kind`.
    """
    mistakes = error.errors()
    unknown = [mistake for mistake in mistakes if mistake["type"] == "extra_forbidden"]
    first = (unknown or mistakes)[0]  # a misspelt key is missing under its right name, too
    field = ".".join(map(str, first["loc"])) or "value"
    if unknown:
        lacking = [".".join(map(str, mistake["loc"])) for mistake in mistakes if mistake["type"] == "missing"]
        near = get_close_matches(field, lacking, n=1) or _nearest(first["loc"], kind)
        return f"the key {field!r} is unknown" + (f"; did you mean {near[0]!r}?" if near else "")
    if first["type"] == "missing":
        return f"the key {field!r} is missing"
    if first["type"] == "value_error":  # a rule over several keys, whose message names them
        return f"{field}: {first['ctx']['error']}" if first["loc"] else str(first["ctx"]["error"])
    message = first["msg"][0].lower() + first["msg"][1:].partition(", unable to parse")[0]
    message = message.replace("input should be", "must be")
    return f"{field} is {repr(first['input'])[:80]}: {message}"


def _nearest(path: tuple[int | str, ...], kind: type[BaseModel] | None) -> list[str]:
    for part in path[:-1] if kind else ():
        field = kind.model_fields.get(str(part)) if kind else None
        kind = kind if isinstance(part, int) else next(_models(field.annotation), None) if field else None
    near = get_close_matches(str(path[-1]), [*kind.model_fields] if kind else [], n=1)
    return [".".join(map(str, (*path[:-1], name))) for name in near]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
