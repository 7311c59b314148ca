"""Errors of a local stack."""

from infra.errors import InfraError
from infra.local.processes import Service

REASONS = {
    "already in use": "its port was taken by another program",
    "disk is full": "the disk is full",
    "database is locked": "another process has locked the database",
    "Can't locate revision": "the database was written by a newer Prefect",
    "readonly database": "the database can't be written",
    "file is not a database": "the database file is damaged",
    "malformed": "the database file is damaged",
    "No module named": "its installation is incomplete",
}


class LocalStackError(InfraError):
    """The server or a worker does not start or run."""


def stop_reason(service: Service, what: str) -> LocalStackError:
    words = service.last_words()
    reason = next((why for sign, why in REASONS.items() if sign in words), service.ending())
    return LocalStackError(f"The Prefect {what} stopped: {reason}. The end of {service.log}:\n{words}")
