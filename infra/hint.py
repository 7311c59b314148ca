"""Suggestions for unknown names."""

from collections.abc import Sequence
from difflib import get_close_matches


def hint(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none'}"
