"""Data from files, read strictly: what is wrong with one is said in one sentence."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import GridbenchError

Model = TypeVar("Model", bound="Strict")


class Strict(BaseModel):
    """Data from a file: an unknown key is a mistake, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_mapping(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file.

    Raises:
        GridbenchError: it can't be read or holds something else.
    """
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())
        raise GridbenchError(f"{path.name} can't be read: {words}") from None
    if not isinstance(raw, dict):
        raise GridbenchError(f"{path.name} holds {type(raw).__name__}, expected keys with values")
    return raw


def validated(kind: type[Model], raw: dict[str, Any], where: str) -> Model:
    """The data as what it should be.

    Raises:
        GridbenchError: it has a mistake; the sentence begins with `where`.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise GridbenchError(f"{where}: {first_mistake(error)}") from None


def first_mistake(error: ValidationError) -> str:
    """The first mistake that pydantic found: field, value, and what would be right."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or "value"
    if first["type"] == "extra_forbidden":
        return f"the key {field!r} is unknown"
    if first["type"] == "missing":
        return f"the key {field!r} is missing"
    if first["type"] == "value_error":  # a rule of ours over several keys: it names them itself
        return f"{field}: {first['ctx']['error']}" if first["loc"] else str(first["ctx"]["error"])
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{field} is {repr(first['input'])[:80]}: {message}"
