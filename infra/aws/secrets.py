"""Secrets for the jobs' environment in AWS Secrets Manager."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from infra.aws.account import TAG, Account, gone, rows
from infra.aws.errors import AwsError

USD_PER_MONTH = 0.40  # for each secret, aws.amazon.com/secrets-manager/pricing
API_KEY, AUTH_STRING = "prefect-api-key", "prefect-auth-string"


def find_secrets(account: Account, project: str) -> Iterator[str]:
    client = account.client("secretsmanager")
    having_tag = [{"Key": "tag-key", "Values": [TAG]}]
    for row in rows(client, "list_secrets", "SecretList", Filters=having_tag):
        if _is_ours(row, project):
            yield row["Name"]


def _is_ours(description: dict[str, Any], project: str) -> bool:
    return {"Key": TAG, "Value": project} in description.get("Tags", [])


def keep_secret(account: Account, project: str, kind: str, value: str) -> tuple[str, bool]:
    """Make or update a secret; return its ARN, and True if it costs from now on."""
    client, name = account.client("secretsmanager"), f"{project}-{kind}"
    try:
        description = client.describe_secret(SecretId=name)
    except ClientError as error:
        if not gone(error):
            raise
        tags = [{"Key": TAG, "Value": project}]
        return client.create_secret(Name=name, SecretString=value, Tags=tags)["ARN"], True
    if not _is_ours(description, project):
        raise AwsError(
            f"there is a secret {name!r} that Gridbench did not make: name it with --secret or "
            "--auth-secret, or choose another --project"
        )
    # one deleted in the console keeps its name for weeks
    if deleted := "DeletedDate" in description:
        client.restore_secret(SecretId=name)
    if client.get_secret_value(SecretId=name)["SecretString"] != value:
        client.put_secret_value(SecretId=name, SecretString=value)
    return description["ARN"], deleted


def drop_secret(account: Account, arn: str) -> None:
    """Delete a secret at once: a scheduled deletion would keep its name."""
    account.client("secretsmanager").delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True)
