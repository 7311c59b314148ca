"""Registries that this project logs in to by itself: those of the clouds that it rents machines from."""

import json
import os
from pathlib import Path

from infra.images import ecr


def has_helper(host: str) -> bool:
    """Return whether docker was told of a program that knows a registry's password; podman asks it, too.

    `gcloud auth configure-docker` does that. Amazon's refuses to be told a password, so that a login fails.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        known = json.loads((folder / "config.json").read_text())
        return host in known.get("credHelpers", {}) or known.get("credsStore") == "ecr-login"
    except (OSError, ValueError):
        return False


def sign_in(repository: str) -> tuple[str, str] | None:
    """Return a user and password for a repository's registry; None where the login is the user's own.

    Raises:
        ImageError: the cloud refuses, or there are no credentials for it.
    """
    host = repository.partition("/")[0]
    if has_helper(host):
        return None
    if region := ecr.region_of(repository):
        return ecr.credentials(region)
    from infra.images import google_registry  # slow to import

    return google_registry.credentials(host) if google_registry.is_host(host) else None


def pushed_digest(repository: str, tag: str) -> str | None:
    """Return the digest of what a tag names already; None if nothing, or if the registry can't be asked.

    The repository of a stack on AWS never changes what a tag names, and refuses even the same image again.

    Raises:
        ImageError: AWS refuses, or there are no credentials for it.
    """
    return ecr.digest_of(repository, tag) if ecr.region_of(repository) else None
