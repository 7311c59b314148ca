"""The base of errors that a person can fix; `gridbench` prints them as one sentence."""


class InfraError(Exception):
    """A problem of a provider, engine or process; the message has reason and remedy."""
