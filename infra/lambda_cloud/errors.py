"""Errors of Lambda; every function that asks its API can raise one."""

import json
import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from infra.errors import InfraError

KEYS_PAGE = "https://cloud.lambda.ai/api-keys"
INSTANCES_PAGE = "https://cloud.lambda.ai/instances"
TOO_MANY = 429
LONGEST_WORDS = 300  # characters of an answer that a sentence quotes
LONGEST_PAGE = 120  # characters of a page that is not the API's
LONGEST_PAUSE_S = 600.0  # longer waits in a Retry-After are ignored


class LambdaError(InfraError):
    """A problem with Lambda that the user can fix or wait out."""


class NoCapacity(LambdaError):
    """No such machine is free there now; another region, type or time might have one."""


class LambdaQuotaExceeded(LambdaError):
    """The account's quota is used up; only Lambda's support can raise it."""


class KeyRefused(LambdaError):
    """The API key or the account is not accepted."""


class BadRequest(LambdaError):
    """The request is wrong; a retry would not help."""


class NotFound(LambdaError):
    """The object that the request names does not exist."""


class TooDear(LambdaError):
    """The price is above the limit."""


class NotReturned(LambdaError):
    """A rented instance's end was not observed: it might still cost money."""


class Doubtful(LambdaError):
    """A launch whose answer was lost: its result is unknown."""


class Unavailable(LambdaError):
    """The API failed; it might work later.

    Attributes:
        perhaps_done: the request might have been carried out, with only the answer lost.
        after_s: to wait before the next request, if the API states it.
    """

    def __init__(self, text: str, *, perhaps_done: bool = True, after_s: float = 0.0) -> None:
        super().__init__(text)
        self.perhaps_done = perhaps_done
        self.after_s = after_s


# API document, schemas ApiError…: 401 concerns the key, 403 the account or the billing address
KINDS: dict[str, type[LambdaError]] = {
    "instance-operations/launch/insufficient-capacity": NoCapacity,
    "global/quota-exceeded": LambdaQuotaExceeded,
    "global/invalid-api-key": KeyRefused,
    "global/account-inactive": KeyRefused,
    "global/invalid-address": KeyRefused,
    "global/object-does-not-exist": NotFound,
}
STATUSES: dict[int, type[LambdaError]] = {401: KeyRefused, 404: NotFound}
TRANSIENT = frozenset({408, 425})  # the server gave up waiting for the request
# Without the documented error object these come from the proxy in front of the API: Cloudflare answers 403
# with "error code: 1010" (a refused client) or 1015 (too many requests), whatever the key or the box.
NOT_THE_API = frozenset({403, 404})


def tidy(text: str, secrets: Sequence[str] = ()) -> str:
    """Return the API's text on one line, shortened, without secrets."""
    line = " ".join(text.split())
    for secret in filter(None, secrets):
        line = line.replace(secret, "…")
    return line.partition("-----BEGIN")[0][:LONGEST_WORDS].rstrip(" .")


def refusal(
    doing: str, status: int, body: str, retry_after: str = "", secrets: Sequence[str] = ()
) -> LambdaError:
    """Return the error for an answer to `doing`, such as `launching gpu_1x_a10 in us-west-1`."""
    error = _error_of(body)
    code, message = (tidy(str(error.get(part) or ""), secrets) for part in ("code", "message"))
    text = f"{doing}: {message or 'no reason given'} (HTTP {status}{f', {code}' if code else ''})"
    if status == TOO_MANY:
        text = f"{doing}: Lambda's API is asked too often (HTTP 429)"
        return Unavailable(text, perhaps_done=False, after_s=pause_s(retry_after))
    if status in NOT_THE_API and not code:
        page = tidy(re.sub(r"<[^>]*>", " ", body), secrets)[:LONGEST_PAGE] or "an empty page"
        text = f"{doing}: what stands before Lambda's API refuses the request (HTTP {status}: {page})"
        return Unavailable(text, perhaps_done=False, after_s=pause_s(retry_after))
    kind = KINDS.get(code)
    if kind is None and (status >= 500 or status in TRANSIENT or code.startswith("provider/")):
        return Unavailable(text, after_s=pause_s(retry_after))
    kind = kind or STATUSES.get(status, BadRequest)
    hint = tidy(str(error.get("suggestion") or ""), secrets)
    if kind is KeyRefused and status == 401:
        text, hint = f"Lambda refuses the key in LAMBDA_API_KEY ({text})", f"make a new one at {KEYS_PAGE}"
    return kind(f"{text}; {hint[0].lower()}{hint[1:]}" if hint else text)


def _error_of(body: str) -> dict[str, Any]:
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def pause_s(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date."""
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE_S) if seconds == seconds else 0.0
