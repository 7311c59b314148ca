"""Errors of the Prefect API."""

from contextlib import suppress

import httpx
from prefect.exceptions import PrefectException

WILL_PASS = (408, 425, 429)  # HTTP statuses of a busy server
LOST_TOUCH = (httpx.HTTPError, PrefectException, OSError)


def status_code(error: Exception) -> int:
    """Return 0 without an answer."""
    return error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0


def refused(error: Exception) -> bool:
    """Return whether a retry is useless."""
    return 400 <= status_code(error) < 500 and status_code(error) not in WILL_PASS


def words_of(error: Exception) -> str:
    """Return the API's reason."""
    if isinstance(error, httpx.HTTPStatusError):
        with suppress(ValueError, AttributeError):  # a proxy can answer without JSON, or with no object
            return " ".join(str(error.response.json().get("detail") or error).split())
    return " ".join(str(error).split())
