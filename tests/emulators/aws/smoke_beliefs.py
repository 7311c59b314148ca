"""Differences between AWS's answers and the emulator's."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.emulators.aws.smoke_cases import Case

REASONS = Path(__file__).with_name("reasons.py")


def beliefs(file: Path = REASONS) -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("reasons", file)
    if not file.exists() or spec is None or spec.loader is None:
        return {}
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def differences(
    wanted: Sequence[Case], found: Mapping[str, Mapping[str, Any]], file: Path = REASONS
) -> list[str]:
    known = beliefs(file)
    return [sentence for case in wanted for sentence in _of(case, found.get(case.name), known)]


def _of(case: Case, seen: Mapping[str, Any] | None, known: Mapping[str, str]) -> list[str]:
    if not seen or seen["status"] != case.status:
        state = seen["status"] if seen else "never submitted"
        return [f"{case.name}: {state}, expected {case.status}"]
    told = []
    if seen["exit_code"] != case.exit_code:
        told.append(f"{case.name}: exit code {seen['exit_code']}, expected {case.exit_code}")
    reason, inner = case.believed
    pairs = [("statusReason", seen["status_reason"], case.words or known.get(reason))]
    if inner:
        pairs.append(("container reason", seen["reason"], known.get(inner)))
    for what, said, believed in pairs:
        if believed is not None and not _fits(believed, said):
            told.append(f"{case.name}: {what} is {said!r}, the emulator says {believed!r}")
    return told


def _fits(believed: str, said: str | None) -> bool:
    """Return whether a sentence is the believed one, with any text in its {gaps}."""
    pattern = "".join(
        ".+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", believed)
    )
    return bool(said and re.fullmatch(pattern, said, re.DOTALL))
