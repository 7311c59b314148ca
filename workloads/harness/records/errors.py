"""One family of errors: each message says what happened and what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches


class WorkloadsError(Exception):
    """A user's mistake or a machine's limit, in one sentence; never a bug in this program."""


class RecordError(WorkloadsError):
    """A record that can't be read: corrupt, incomplete, or of another schema version."""


def hint(name: str, known: Iterable[str]) -> str:
    """Suggest the known name nearest to an unknown one, or list all known names."""
    names = [*known]
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none'}"
