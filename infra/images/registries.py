"""Logins to the registries of AWS and Google."""

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.images.errors import ImageError
from workloads.harness.records.places import home

ECR_HOST = re.compile(r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")
GOOGLE_HOST = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|([a-z]+\.)?gcr\.io")  # Artifact and Container Registry
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
GOOGLE_USER = "oauth2accesstoken"  # the user that takes an access token as its password
QUICK = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2})
IMAGE = re.compile(r"(?P<repository>.+?)(:(?P<tag>[\w.-]+))?(@(?P<digest>sha256:[0-9a-f]+))?")


def has_helper(host: str) -> bool:
    """Return True if docker's settings have a credential helper; podman uses it, too.

    Amazon's helper accepts no password, so a login would fail.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or home() / ".docker")
    try:
        known = json.loads((folder / "config.json").read_text())
        return host in known.get("credHelpers", {}) or known.get("credsStore") == "ecr-login"
    except (OSError, ValueError):
        return False


def sign_in(repository: str) -> tuple[str, str] | None:
    """Return user and password; None if the user must log in."""
    host = repository.partition("/")[0]
    if has_helper(host):
        return None
    if region := ecr_region(repository):
        return ecr_credentials(region)
    return google_credentials(host) if GOOGLE_HOST.fullmatch(host) else None


def pushed_digest(repository: str, tag: str) -> str | None:
    """Return a tag's present digest; None if it is free, or unknown for other registries.

    A stack's repository on AWS never moves a tag, and refuses even the same image again.
    """
    return ecr_digest(repository, tag) if ecr_region(repository) else None


def ecr_region(repository: str) -> str | None:
    match = ECR_HOST.fullmatch(repository.partition("/")[0])
    return match["region"] if match else None


def ecr_credentials(region: str, client: Any = None) -> tuple[str, str]:
    """Fetch user and password, valid for twelve hours."""
    try:
        client = client or boto3.client("ecr", region_name=region)
        token = client.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    except (BotoCoreError, ClientError) as error:
        raise ImageError(f"no password for the registry in {region}: {error}") from error
    user, _, password = base64.b64decode(token).decode().partition(":")
    return user, password


def ecr_digest(repository: str, tag: str) -> str | None:
    host, _, name = repository.partition("/")
    match = ECR_HOST.fullmatch(host)
    assert match, f"{host} is not ECR's"
    try:
        client = boto3.client("ecr", region_name=match["region"], config=QUICK)
        key = "imageDigest" if tag.startswith("sha256:") else "imageTag"
        wanted = {"registryId": match["account"], "repositoryName": name, "imageIds": [{key: tag}]}
        found: str = client.describe_images(**wanted)["imageDetails"][0]["imageDigest"]
        return found
    except (BotoCoreError, ClientError) as error:
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
        if code == "ImageNotFoundException":
            return None
        raise ImageError(f"{repository} can't be asked for tag {tag}: {error}") from error


def check_exists(image: str) -> str:
    """Return why it is unknown whether an image exists, or "" if it does; raise if ECR lacks it."""
    match = IMAGE.fullmatch(image)
    if not match or not ecr_region(repository := match["repository"]):
        return "only images of ECR are looked up"
    tag = match["digest"] or match["tag"] or "latest"
    try:
        found = ecr_digest(repository, tag)
    except ImageError as error:
        if "RepositoryNotFoundException" not in str(error):
            return str(error)
        found = None
    if not found:
        raise ImageError(f"image {image} does not exist: push it, or name another one")
    return ""


def google_credentials(host: str) -> tuple[str, str]:
    """Fetch user and password, valid for an hour, with Google's default credentials."""
    import google.auth  # slow to import
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        found, _ = google.auth.default(scopes=[GOOGLE_SCOPE])
        found.refresh(Request())  # type: ignore[no-untyped-call]
    except GoogleAuthError as error:
        hint = "gcloud auth application-default login"
        raise ImageError(f"no password for {host}: {error}; make one: {hint}") from error
    return GOOGLE_USER, str(found.token)
