"""The answers of a box, parsed strictly."""

import re
from collections.abc import Mapping
from typing import Literal, cast, get_args

from ..base.job_configuration import JobRefused
from ..base.printable import printable, quoted

Facts = dict[str, list[str]]
State = Literal["absent", "prepared", "running", "ended", "abandoned", "rebooted"]
LARGEST = 2**53  # of bytes, KiB and seconds
LARGEST_PORT = 2**16 - 1
REQUIRED = ("kernel", "architecture", "home")


def text_of(output: bytes | str | None) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    return text.strip()


def words_of(output: bytes | str | None, otherwise: str = "no output") -> str:
    """Return output for a sentence: printable, short, on one line."""
    return quoted(text_of(output)) or otherwise


def facts_in(output: bytes | str | None) -> Facts:
    facts: Facts = {}
    for line in text_of(output).split("\n"):
        name, is_fact, value = line.partition("=")
        if is_fact:
            facts.setdefault(name, []).append(printable(value))
    return facts


def once(facts: Facts) -> dict[str, str]:
    return {name: values[0] for name, values in facts.items()}


def whole(values: Mapping[str, str], name: str, most: int = LARGEST) -> int | None:
    """Raise `JobRefused` unless a fact is an integer from 0 to `most`."""
    text = values.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,16}", text) or int(text) > most:
        raise _senseless(name, text, f"a whole number from 0 to {most}")
    return int(text)


def state_in(values: Mapping[str, str]) -> State:
    """Raise `JobRefused` for a state that our scripts do not print."""
    state = values.get("state", "")
    if state not in get_args(State):
        raise _senseless("state", state, f"one of {', '.join(get_args(State))}")
    return cast(State, state)


def seconds_in(text: str) -> int | None:
    return max(0, int(text)) if re.fullmatch(r"-?[0-9]{1,12}", text) else None


def exit_code_in(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def check_facts(facts: Facts) -> None:
    values = once(facts)
    if lacking := [name for name in REQUIRED if not values.get(name)]:
        raise JobRefused(f"The box's answer lacks {lacking[0]}: repair `uname` and HOME there.", "Unfit")
    whole(values, "memory_kib")


def absolute_path(text: str, what: str) -> str:
    """Raise `JobRefused` if a box's path is relative or unprintable."""
    if not text.startswith("/") or printable(text) != text:
        raise _senseless(what, text, "an absolute path on one line")
    return text


def _senseless(name: str, text: str, expected: str) -> JobRefused:
    return JobRefused(
        f"The box's answer makes no sense: {name} is {quoted(text)[:60]!r}, expected {expected}.", "Unfit"
    )
