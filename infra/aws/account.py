"""The AWS account and region of a command."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from infra.aws.errors import AwsError
from infra.workers.batch.errors import code_of

Client = Callable[[str], Any]
CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 6})
TAG = "gridbench"  # on everything that the stack makes; its value is the project


@dataclass(frozen=True, slots=True)
class Account:
    """An AWS account in one region.

    `number` has twelve digits; `partition` is `aws`, `aws-cn` or `aws-us-gov`.
    """

    client: Client
    region: str
    number: str
    partition: str = "aws"


def region_of(region: str | None = None) -> str:
    session = boto3.session.Session(region_name=region)
    name = session.region_name
    if not name:
        raise AwsError("no region: name one with --region, such as us-east-1, or set AWS_DEFAULT_REGION")
    regions = [
        regions
        for partition in session.get_available_partitions()
        for regions in session.get_available_regions("batch", partition_name=partition)
    ]
    if name not in regions:
        near = get_close_matches(name, regions, n=1)
        like = f"did you mean {near[0]}?" if near else "such as us-east-1 or eu-central-1"
        raise AwsError(f"region {name!r} has no AWS Batch; {like}")
    return str(name)


def connect(region: str) -> Account:
    session = boto3.session.Session(region_name=region)

    @cache
    def client(service: str) -> Any:
        return session.client(service, config=CONFIG)

    arn = client("sts").get_caller_identity()["Arn"]
    return Account(client, region, arn.split(":")[4], arn.split(":")[1])


def gone(error: ClientError) -> bool:
    code, words = code_of(error), str(error)
    missing = ("NotFound", "NoSuch", "ResourceNotFound")
    return any(word in code for word in missing) or "does not exist" in words


def rows(client: Any, operation: str, key: str, **arguments: Any) -> list[Any]:
    pages = client.get_paginator(operation).paginate(**arguments)
    return [row for page in pages for row in page.get(key, [])]
