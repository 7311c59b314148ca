"""Suites: named lists of cases, in TOML because a box with nothing but torch can read it."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from workloads.harness.case import Case
from workloads.harness.errors import WorkloadsError
from workloads.harness.registry import find

DEPLOYMENTS = Path(os.environ.get("GRIDBENCH_DEPLOYMENTS") or Path(__file__).parents[2] / "deployments")
FOLDER = DEPLOYMENTS / "suites"
KEYS = {"title": str, "repeats": int, "quick": bool, "timeout_s": int, "estimate_s": int, "cases": list}
CASE_KEYS = {"workload": str, "size": dict, "precision": list}


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of cases.

    Attributes:
        repeats: fresh processes per cell, unless a run asks for another number.
        quick: be less patient with machines that won't settle.
        timeout_s: seconds after which a repeat is stopped.
        estimate_s: seconds that a repeat usually takes, for the plan's estimate.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    repeats: int = 3
    quick: bool = False
    timeout_s: float = 600.0
    estimate_s: float = 15.0


def suite_names(folder: Path = FOLDER) -> list[str]:
    """The suites that there are."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_suite(name: str, folder: Path = FOLDER) -> Suite:
    """Read a suite by its name, or by the path of a TOML file.

    Raises:
        WorkloadsError: there is no such suite, or its file has a mistake; it names file, field and value.
    """
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    try:
        raw = tomllib.loads(path.read_text())
    except FileNotFoundError:
        near = get_close_matches(name, suite_names(folder), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(suite_names(folder)) or 'none'}"
        raise WorkloadsError(f"suite {name!r} is unknown; {hint}") from None
    except (OSError, ValueError) as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise WorkloadsError(f"suite {path} can't be read: {error}") from None
    try:
        return _suite(path.stem, raw)
    except WorkloadsError as error:
        raise WorkloadsError(f"suite {path.name}: {error}") from None


def _suite(name: str, raw: Mapping[str, Any]) -> Suite:
    _check_keys(raw, KEYS, "the suite")
    cases: dict[Case, None] = {}
    for entry in raw.get("cases", []):
        _check_keys(entry, CASE_KEYS, "a case")
        if "workload" not in entry:
            raise WorkloadsError("a case lacks the key workload")
        cases.update(dict.fromkeys(_expand(entry)))
    if not cases:
        raise WorkloadsError("it has no cases; give at least one [[cases]] with workload and size")
    numbers = {key: raw[key] for key in ("repeats", "timeout_s", "estimate_s") if key in raw}
    for key, value in numbers.items():
        if value <= 0:
            raise WorkloadsError(f"{key}={value} must be above 0")
    return Suite(name, raw.get("title", name), tuple(cases), quick=raw.get("quick", False), **numbers)


def _check_keys(raw: object, known: Mapping[str, type], where: str) -> None:
    if not isinstance(raw, dict):
        raise WorkloadsError(f"{where} is {raw!r}, expected a table with {', '.join(known)}")
    for key, value in raw.items():
        if key not in known:
            raise WorkloadsError(f"{where} has the unknown key {key!r}; known are {', '.join(known)}")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is int):
            raise WorkloadsError(f"{key} is {value!r}, expected {known[key].__name__}")


def _expand(entry: Mapping[str, Any]) -> list[Case]:
    """All cases of one entry: each size parameter is a number or a list of numbers."""
    workload = find(entry["workload"])
    choices = {name: tuple(v) if isinstance(v, list) else (v,) for name, v in entry.get("size", {}).items()}
    precisions = entry.get("precision", ["fp32"])
    if empty := [name for name, values in {"precision": precisions, **choices}.items() if not values]:
        raise WorkloadsError(f"{empty[0]} is [], which makes no case; give at least one value")
    return [case for precision in precisions for case in workload.grid(choices, precision)]
