"""The base of all errors that a person can fix; `gridbench` prints them as one sentence."""


class InfraError(Exception):
    """A problem of a provider, an engine or a process; the message says the reason and what to do."""
