"""Amazon's container registry: its repositories' names, and a password for it."""

import base64
import re
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.images.errors import ImageError

HOST = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")


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
