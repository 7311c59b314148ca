"""Google's Artifact Registry: its hosts, and a password for them."""

import re

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request

from infra.images.errors import ImageError

HOST = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|([a-z]+\.)?gcr\.io")
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
USER = "oauth2accesstoken"  # the user that takes an access token as its password


def is_host(host: str) -> bool:
    """Return True for a host of Artifact Registry, or of Container Registry before it."""
    return HOST.fullmatch(host) is not None


def credentials(host: str) -> tuple[str, str]:
    """Fetch a user and password for a registry, good for an hour, by the default credentials of Google.

    Raises:
        ImageError: there are no credentials, or Google refuses them.
    """
    try:
        found, _ = google.auth.default(scopes=[SCOPE])
        found.refresh(Request())  # type: ignore[no-untyped-call]
    except GoogleAuthError as error:
        hint = "gcloud auth application-default login"
        raise ImageError(f"no password for {host}: {error}; make one: {hint}") from error
    return USER, str(found.token)
