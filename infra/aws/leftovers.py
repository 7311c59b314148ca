"""Search for a project's objects at each service itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from infra.aws.account import TAG, Account, gone, rows
from infra.aws.delivery import find_buckets
from infra.aws.errors import sentence
from infra.aws.secrets import find_secrets
from infra.aws.state import environments_of, queues_of, read_instances
from infra.workers.batch.errors import DENIED, code_of

Look = Callable[[Account, str], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Left:
    """Names by kind, and a sentence for each unreadable kind."""

    by_kind: dict[str, list[str]]
    unseen: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [f"{kind}: {', '.join(names)}" for kind, names in self.by_kind.items()]


def tagged(operation: str, key: str, identity: str, *filters: dict[str, Any]) -> Look:
    def look(account: Account, project: str) -> Iterator[str]:
        all_filters = [{"Name": f"tag:{TAG}", "Values": [project]}, *filters]
        for row in rows(account.client("ec2"), operation, key, Filters=all_filters):
            yield row[identity]

    return look


def job_definitions(account: Account, project: str) -> Iterator[str]:
    """Yield active job definitions; deregistered ones cost nothing and disappear after half a year."""
    batch = account.client("batch")
    for row in rows(batch, "describe_job_definitions", "jobDefinitions", status="ACTIVE"):
        logs = row.get("containerProperties", {}).get("logConfiguration", {}).get("options", {})
        if row.get("tags", {}).get(TAG) == project or logs.get("awslogs-group") == f"/gridbench/{project}":
            yield f"{row['jobDefinitionName']}:{row['revision']}"


def log_groups(account: Account, project: str) -> Iterator[str]:
    name = f"/gridbench/{project}"
    groups = rows(account.client("logs"), "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    yield from (row["logGroupName"] for row in groups if row["logGroupName"] == name)


def repositories(account: Account, project: str) -> Iterator[str]:
    try:
        answer = account.client("ecr").describe_repositories(repositoryNames=[f"{project}/lane"])
    except ClientError as error:
        if gone(error):
            return
        raise
    yield from (row["repositoryName"] for row in answer["repositories"])


def roles(account: Account, project: str) -> Iterator[str]:
    """Yield IAM roles by tag: other projects' names can begin with the same letters."""
    iam = account.client("iam")
    for row in rows(iam, "list_roles", "Roles"):
        if row["RoleName"].startswith(f"{project}-"):
            tags = iam.list_role_tags(RoleName=row["RoleName"])["Tags"]
            if {"Key": TAG, "Value": project} in tags:
                yield row["RoleName"]


def profiles(account: Account, project: str) -> Iterator[str]:
    for row in rows(account.client("iam"), "list_instance_profiles", "InstanceProfiles"):
        if row["InstanceProfileName"].startswith(f"{project}-InstanceProfile-"):
            yield row["InstanceProfileName"]


def policies(account: Account, project: str) -> Iterator[str]:
    for row in rows(account.client("iam"), "list_policies", "Policies", Scope="Local"):
        if row["PolicyName"].startswith((f"{project}-WorkerPolicy-", f"{project}-ResultsPolicy-")):
            yield row["PolicyName"]


def budgets(account: Account, project: str) -> Iterator[str]:
    budget_rows = rows(account.client("budgets"), "describe_budgets", "Budgets", AccountId=account.number)
    yield from (row["BudgetName"] for row in budget_rows if row["BudgetName"] == f"{project}-monthly")


def buckets(account: Account, project: str) -> Iterator[str]:
    """Yield this region's results buckets, also those of earlier stacks."""
    s3 = account.client("s3")
    for row in s3.list_buckets().get("Buckets", []):
        name = row["Name"]
        if name.startswith(f"{project}-") and _is_ours(s3, name, account.region, project):
            yield name


def _is_ours(s3: Any, name: str, region: str, project: str) -> bool:
    try:
        if (s3.get_bucket_location(Bucket=name)["LocationConstraint"] or "us-east-1") != region:
            return False
        return {"Key": TAG, "Value": project} in s3.get_bucket_tagging(Bucket=name)["TagSet"]
    except ClientError as error:
        if gone(error) or code_of(error) in DENIED:  # names of other projects can begin with the same letters
            return False
        raise


LOOKS: dict[str, Look] = {
    # Not terminated: they cost money.
    "instances": lambda account, project: (it.id for it in read_instances(account.client("ec2"), project)),
    "volumes": tagged("describe_volumes", "Volumes", "VolumeId"),
    "job queues": lambda account, project: (
        row["jobQueueName"] for row in queues_of(account.client("batch"), project)
    ),
    "compute environments": lambda account, project: (
        row["computeEnvironmentName"] for row in environments_of(account.client("batch"), project)
    ),
    "job definitions": job_definitions,
    "launch templates": tagged("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    "security groups": tagged("describe_security_groups", "SecurityGroups", "GroupId"),
    "subnets": tagged("describe_subnets", "Subnets", "SubnetId"),
    "route tables": tagged("describe_route_tables", "RouteTables", "RouteTableId"),
    "internet gateways": tagged("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "VPC endpoints": tagged(
        "describe_vpc_endpoints",
        "VpcEndpoints",
        "VpcEndpointId",
        {"Name": "vpc-endpoint-state", "Values": ["pending", "available"]},
    ),
    "VPCs": tagged("describe_vpcs", "Vpcs", "VpcId"),
    "roles": roles,
    "instance profiles": profiles,
    "managed policies": policies,
    "log groups": log_groups,
    "image repositories": repositories,
    "budgets": budgets,
    "template buckets": find_buckets,
    "secrets": find_secrets,
}


def look(account: Account, project: str) -> Left:
    by_kind: dict[str, list[str]] = {}
    unseen = []
    for kind, search in LOOKS.items():
        try:
            names = list(search(account, project))
        except ClientError as error:
            if code_of(error) not in DENIED:
                raise
            unseen.append(f"{kind} could not be listed: {sentence(error)}")
            continue
        if names:
            by_kind[kind] = names
    return Left(by_kind, tuple(unseen))
