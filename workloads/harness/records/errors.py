"""One family of errors: each message says what happened and what would be right."""


class WorkloadsError(Exception):
    """A user's mistake or a machine's limit, said in one sentence; never a bug of ours."""


class RecordError(WorkloadsError):
    """A record that can't be read: corrupt, incomplete, or of another schema version."""
