"""Roles and keys that AWS makes at the first use of a service, made before it; they cost nothing and stay.

AWS's own first use can fail: a role that was made a second ago can't be assumed yet (aws/containers-roadmap
#2614).
"""

from botocore.exceptions import ClientError

from infra.aws.account import Account
from infra.workers.batch.errors import DENIED, code_of

# Service-linked roles. Spot's: AWS Batch user guide, "Create Amazon EC2 spot fleet roles".
SERVICES = ("batch.amazonaws.com", "ecs.amazonaws.com", "autoscaling.amazonaws.com", "spot.amazonaws.com")
DISK_KEY = "alias/aws/ebs"  # KMS makes AWS's own key when it is described (API reference, DescribeKey)
THERE = "InvalidInput"  # "Service role name … has been taken in this account"


def prepare(account: Account) -> None:
    iam, kms = account.client("iam"), account.client("kms")
    for service in SERVICES:
        try:
            iam.create_service_linked_role(AWSServiceName=service)
        except ClientError as error:
            if code_of(error) not in (THERE, *DENIED):
                raise
    try:
        kms.describe_key(KeyId=DISK_KEY)
    except ClientError as error:
        if code_of(error) not in DENIED:
            raise
