"""Mistakes of the user's, said in one sentence before anything is launched."""


class GridbenchError(Exception):
    """What is wrong, which value, and what would be right."""
