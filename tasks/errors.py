"""Mistakes of the user, stated in one sentence before anything starts."""


class GridbenchError(Exception):
    """A mistake of the user, in a sentence: the mistake, the value, and what would be right."""


def one_line(error: object, most: int = 200) -> str:
    """Return an error's message on one line of at most `most` characters."""
    return " ".join(str(error).split())[:most]
