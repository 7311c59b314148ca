"""Delivery of a template to CloudFormation."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from infra.aws.account import Account, gone
from infra.aws.template import BODY_BYTES

PREFIX = "gridbench-template"
KEY = "template.json"


@contextmanager
def delivered(account: Account, project: str, body: str) -> Iterator[dict[str, str]]:
    """Yield the arguments that name the template, while CloudFormation reads it.

    A large template gets a temporary bucket, because a new stack has no bucket yet.
    """
    if len(body.encode()) <= BODY_BYTES:
        yield {"TemplateBody": body}
        return
    s3, bucket = account.client("s3"), f"{PREFIX}-{project}-{account.number}-{secrets.token_hex(4)}"
    elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": account.region}}
    try:
        s3.create_bucket(Bucket=bucket, **({} if account.region == "us-east-1" else elsewhere))
        s3.put_object(Bucket=bucket, Key=KEY, Body=body.encode(), ContentType="application/json")
        s3.get_waiter("object_exists").wait(Bucket=bucket, Key=KEY)
        yield {"TemplateURL": address(account.region, bucket, account.partition)}
    finally:
        remove(account, bucket)


def address(region: str, bucket: str, partition: str = "aws") -> str:
    domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return f"https://{bucket}.s3.{region}.{domain}/{KEY}"


def remove(account: Account, bucket: str) -> None:
    s3 = account.client("s3")
    try:
        s3.delete_object(Bucket=bucket, Key=KEY)
        s3.delete_bucket(Bucket=bucket)
    except ClientError as error:
        if not gone(error):
            raise


def find_buckets(account: Account, project: str) -> Iterator[str]:
    """Yield the buckets that a killed `up` left."""
    start = f"{PREFIX}-{project}-{account.number}-"
    names = (row["Name"] for row in account.client("s3").list_buckets().get("Buckets", []))
    yield from (name for name in names if name.startswith(start))
