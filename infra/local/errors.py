"""What goes wrong with a local stack, said in a sentence."""


class LocalStackError(Exception):
    """The server or the worker can't be had; the message says why and what to do."""
