"""Base classes of errors, whose messages say what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches


class WorkloadsError(Exception):
    """A user's mistake or a machine's limit, in one sentence; never a bug in this program."""


class RecordError(WorkloadsError):
    """A record that is corrupt, incomplete or of another schema version."""


MOST_HINTS = 6


def hint(name: str, known: Iterable[str]) -> str:
    names = [*known]
    near = get_close_matches(name, names, n=1) or [known for known in names if name and name in known]
    return (
        f"did you mean {' or '.join(near)}?"
        if 0 < len(near) <= MOST_HINTS
        else f"there are {', '.join(names) or 'none'}"
    )
