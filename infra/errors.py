"""The base of every error that a person can mend; `gridbench` prints its message as one sentence."""


class InfraError(Exception):
    """A provider, an engine or a process does not do what is needed; the message says why and what to do."""
