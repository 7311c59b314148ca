"""Amazon's container registry: its repositories' names, a password for it, and what was pushed."""

import base64
import re
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.images.errors import ImageError

HOST = re.compile(r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")


def region_of(repository: str) -> str | None:
    """Return the region of a repository in ECR; None for another registry's."""
    match = HOST.fullmatch(repository.partition("/")[0])
    return match["region"] if match else None


def credentials(region: str, client: Any = None) -> tuple[str, str]:
    """Fetch a user and password for a region's registry, good for twelve hours.

    Raises:
        ImageError: AWS refuses, or there are no credentials.
    """
    try:
        client = client or boto3.client("ecr", region_name=region)
        token = client.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    except (BotoCoreError, ClientError) as error:
        raise ImageError(f"no password for the registry in {region}: {error}") from error
    user, _, password = base64.b64decode(token).decode().partition(":")
    return user, password


def digest_of(repository: str, tag: str) -> str | None:
    """Return the digest that a tag of a repository in ECR has; None if the tag is free.

    Raises:
        ImageError: AWS refuses, there are no credentials, or no such repository.
    """
    host, _, name = repository.partition("/")
    match = HOST.fullmatch(host)
    assert match, f"{host} is not ECR's"
    try:
        client = boto3.client("ecr", region_name=match["region"])
        wanted = {"registryId": match["account"], "repositoryName": name, "imageIds": [{"imageTag": tag}]}
        found: str = client.describe_images(**wanted)["imageDetails"][0]["imageDigest"]
        return found
    except (BotoCoreError, ClientError) as error:
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
        if code == "ImageNotFoundException":
            return None
        raise ImageError(f"{repository} can't be asked for tag {tag}: {error}") from error
