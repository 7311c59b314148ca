"""Mistakes of the user, stated in one sentence before anything starts."""


class GridbenchError(Exception):
    """A user's mistake in a sentence: mistake, value, and what would be right."""


def one_line(error: object, most: int = 200) -> str:
    """Return at most `most` characters on one line."""
    return " ".join(str(error).split())[:most]
