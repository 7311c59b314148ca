"""Mistakes of the user's, said in one sentence before anything is launched."""


class GridbenchError(Exception):
    """What is wrong, which value, and what would be right."""


def one_line(error: object, most: int = 200) -> str:
    """What somebody else's library says, on one line of so many characters at most."""
    return " ".join(str(error).split())[:most]
