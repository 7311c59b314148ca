"""Errors of Google; every function that asks Google can raise one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.api_core import exceptions as api
from google.auth import exceptions as auth
from grpc import StatusCode

from infra.errors import InfraError

CREDENTIALS = (
    "Google Cloud credentials were not found: run `gcloud auth application-default login`, "
    "or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
)
SIGN_IN = "sign in again with `gcloud auth application-default login`"
LONGEST_WORDS = 500  # characters of an answer that a sentence quotes


class GkeError(InfraError):
    """A problem with GKE that the user can fix or wait out."""


class NoCredentials(GkeError):
    """There are no credentials, or Google does not accept them."""


class PermissionMissing(GkeError):
    """The credentials lack a permission."""


class ApiDisabled(GkeError):
    """The project has not enabled the Kubernetes Engine API."""


class GkeQuotaExceeded(GkeError):
    """A quota of the project is used up."""


class Stockout(GkeError):
    """The zone has no such machine free now."""


class NotInZone(GkeError):
    """The zone never has such machines."""


class NoNetwork(GkeError):
    """The project lacks the network, or the region the subnetwork."""


class AccountRefused(GkeError):
    """The service account does not exist, or the user is not allowed to use it."""


class Exists(GkeError):
    """The object to create exists already."""


class Missing(GkeError):
    """The object that a request names does not exist."""


class ClusterBusy(GkeError):
    """Another operation on the cluster must end first."""


class Invalid(GkeError):
    """The request is wrong; a retry would not help."""


class GkeUnreachable(GkeError):
    """GKE did not answer, or failed; it might have carried out the request."""


class Failed(GkeError):
    """An operation began and failed, for a reason of GKE's."""


class Foreign(GkeError):
    """The cluster exists, and it is not Gridbench's to change."""


# The first that fits decides: words of the reason or the message, then the status. Words come first,
# because operations end with unspecific statuses: a stockout has had several.
WORDS: tuple[tuple[str, type[GkeError]], ...] = (
    (r"SERVICE_DISABLED|has not been used in project|API .*(is|been) disabled", ApiDisabled),
    (r"ZONE_RESOURCE_POOL_EXHAUSTED|STOCKOUT|not have enough resources available", Stockout),
    (r"QUOTA_EXCEEDED|[Qq]uota.* exceeded|[Ii]nsufficient .*quota", GkeQuotaExceeded),
    (
        r"(acceleratorTypes/|machineTypes/|[Aa]ccelerator type|[Mm]achine type)"
        r".*(not found|not exist|not available|not supported)",
        NotInZone,
    ),
    (r"Getting metadata from plugin failed", NoCredentials),
    (r"has no network named|[Nn]etwork .* does not exist|[Ss]ubnetwork .*not found", NoNetwork),
    (r"does not have access to service account", AccountRefused),
)
CODES: dict[StatusCode, type[GkeError]] = {
    StatusCode.RESOURCE_EXHAUSTED: GkeQuotaExceeded,
    StatusCode.ALREADY_EXISTS: Exists,
    StatusCode.PERMISSION_DENIED: PermissionMissing,
    StatusCode.UNAUTHENTICATED: NoCredentials,
    StatusCode.FAILED_PRECONDITION: ClusterBusy,
    StatusCode.NOT_FOUND: Missing,
    StatusCode.INVALID_ARGUMENT: Invalid,
    **dict.fromkeys((StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED), GkeUnreachable),
    **dict.fromkeys((StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.ABORTED), GkeUnreachable),
}
TEXTS: dict[type[GkeError], str] = {
    NoCredentials: f"Google does not take these credentials ({{doing}}: {{said}}): {SIGN_IN}",
    PermissionMissing: "Google refuses {doing}: {said}; docs/gke.md lists the rights that are needed",
    ApiDisabled: (
        "the Kubernetes Engine API is not enabled ({doing}: {said}): "
        "`gcloud services enable container.googleapis.com`, then try again in a few minutes"
    ),
    GkeQuotaExceeded: (
        "{doing}: a quota of this project is used up: {said}; ask for more at "
        "https://console.cloud.google.com/iam-admin/quotas, or take another region, fewer nodes, or --spot, "
        "which has separate quotas"
    ),
    Stockout: (
        "{doing}: the zone has no capacity now: {said}; try again later, another --zone, "
        "or the other of spot and on demand"
    ),
    NotInZone: (
        "{doing}: the zone does not have it: {said}; `gcloud compute accelerator-types list` shows the zones "
        "that do, and another --zone gets its own cluster"
    ),
    NoNetwork: (
        "{doing}: the network does not exist: {said}; name another with --network and --subnetwork, or make "
        "one: `gcloud compute networks create gridbench --subnet-mode auto`, then --network gridbench"
    ),
    AccountRefused: (
        "{doing}: the nodes are not allowed to act as their service account: {said}; docs/gke.md has the rights "
        "that you need, and --node-account names another account"
    ),
    Exists: "{doing}: it exists already: {said}",
    Missing: "{doing}: it does not exist: {said}",
    ClusterBusy: "{doing}: the cluster is not ready for it: {said}; wait until that has ended, then again",
    Invalid: "{doing}: GKE rejects the request: {said}",
    GkeUnreachable: "{doing}: GKE does not answer ({said}): check the network, then again",
}
NUMBERS = {code.value[0]: code for code in StatusCode}


def refusal(doing: str, code: StatusCode | None, message: str, reason: str = "") -> GkeError:
    """Return the error for a refused call or a failed operation.

    `doing` is like `making node pool nvidia-l4`, `reason` Google's own name for it.
    """
    text = tidy(message) or (code.name if code else "no reason given")
    kind = next((kind for words, kind in WORDS if re.search(words, f"{reason} {text}")), None)
    kind = kind or (CODES.get(code) if code else None) or GkeError
    return kind(TEXTS.get(kind, "{doing}: {said}").format(doing=doing, said=text))


def failure(operation: Any, doing: str) -> GkeError | None:
    if not operation.error.code and not operation.error.message:
        return None
    message = operation.error.message or operation.status_message
    error = refusal(doing, NUMBERS.get(operation.error.code), message)
    # the operation failed: GKE did answer, and no other operation is in the way
    if type(error) in (GkeError, ClusterBusy, Exists, Missing, GkeUnreachable):
        return Failed(f"{doing}: {tidy(message) or 'no reason given'}")
    return error


def tidy(text: str) -> str:
    """Return Google's text shortened on one line, without its full stop."""
    return " ".join(text.split())[:LONGEST_WORDS].rstrip(" .")


@contextmanager
def in_words(doing: str) -> Iterator[None]:
    try:
        yield
    except auth.DefaultCredentialsError as error:
        raise NoCredentials(f"{CREDENTIALS} ({tidy(str(error))[:150]})") from error
    except auth.GoogleAuthError as error:
        raise NoCredentials(
            f"the Google Cloud credentials can't be used ({tidy(str(error))}): {SIGN_IN}"
        ) from error
    except api.RetryError as error:
        cause = error.cause if isinstance(error.cause, api.GoogleAPICallError) else None
        raise _answered(doing, cause) if cause else GkeUnreachable(f"{doing}: GKE does not answer") from error
    except api.GoogleAPICallError as error:
        raise _answered(doing, error) from error


def _answered(doing: str, error: api.GoogleAPICallError) -> GkeError:
    return refusal(doing, error.grpc_status_code, error.message or "", error.reason or "")
