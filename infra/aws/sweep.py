"""Deletion of objects outside of stacks, by each service's API."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from infra.aws import stack as stacks
from infra.aws.account import Account, gone, rows
from infra.aws.delivery import remove as remove_bucket
from infra.aws.errors import AwsError, sentence
from infra.aws.leftovers import LOOKS
from infra.aws.secrets import drop_secret
from infra.aws.state import environments_of, queues_of

WAIT_S = 900.0
Say = Callable[[str], None]
Remove = Callable[[Account, str], Any]


def _remove_slowly(
    batch: Any, kind: str, argument: str, name: str, present: Callable[[], list[dict[str, Any]]]
) -> None:
    deadline = time.monotonic() + WAIT_S
    while row := next((row for row in present() if row[f"{argument}Name"] == name), None):
        settled = row.get("status", "VALID") in ("VALID", "INVALID")
        if settled and row["state"] != "DISABLED":
            getattr(batch, f"update_{kind}")(**{argument: name, "state": "DISABLED"})
        elif settled:
            getattr(batch, f"delete_{kind}")(**{argument: name})
        if time.monotonic() > deadline:
            raise AwsError(f"{kind.replace('_', ' ')} {name} is not deleted yet: try again in a few minutes")
        time.sleep(stacks.POLL_S)


def detach_policy(account: Account, arn: str) -> list[str]:
    iam, had = account.client("iam"), []
    for kind in ("User", "Group", "Role"):
        for row in rows(iam, "list_entities_for_policy", f"Policy{kind}s", PolicyArn=arn, EntityFilter=kind):
            name = row[f"{kind}Name"]
            getattr(iam, f"detach_{kind.lower()}_policy")(**{f"{kind}Name": name, "PolicyArn": arn})
            had.append(f"{kind.lower()} {name}")
    return had


def _policy(account: Account, name: str) -> None:
    arn = f"arn:{account.partition}:iam::{account.number}:policy/{name}"
    detach_policy(account, arn)
    account.client("iam").delete_policy(PolicyArn=arn)


def _role(account: Account, name: str) -> None:
    iam = account.client("iam")
    for policy in rows(iam, "list_role_policies", "PolicyNames", RoleName=name):
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    for row in rows(iam, "list_attached_role_policies", "AttachedPolicies", RoleName=name):
        iam.detach_role_policy(RoleName=name, PolicyArn=row["PolicyArn"])
    iam.delete_role(RoleName=name)


def _profile(account: Account, name: str) -> None:
    iam = account.client("iam")
    for role in iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"])
    iam.delete_instance_profile(InstanceProfileName=name)


def _instance(account: Account, name: str) -> None:
    ec2 = account.client("ec2")
    ec2.terminate_instances(InstanceIds=[name])
    ec2.get_waiter("instance_terminated").wait(InstanceIds=[name])


def _route_table(account: Account, name: str) -> None:
    ec2 = account.client("ec2")
    for table in ec2.describe_route_tables(RouteTableIds=[name])["RouteTables"]:
        for row in table["Associations"]:
            if not row.get("Main"):
                ec2.disassociate_route_table(AssociationId=row["RouteTableAssociationId"])
    ec2.delete_route_table(RouteTableId=name)


def _gateway(account: Account, name: str) -> None:
    ec2 = account.client("ec2")
    for gateway in ec2.describe_internet_gateways(InternetGatewayIds=[name])["InternetGateways"]:
        for row in gateway["Attachments"]:
            ec2.detach_internet_gateway(InternetGatewayId=name, VpcId=row["VpcId"])
    ec2.delete_internet_gateway(InternetGatewayId=name)


def _call(service: str, operation: str, argument: str, several: bool = False, **more: Any) -> Remove:
    def remove(account: Account, name: str) -> Any:
        value = [name] if several else name
        return getattr(account.client(service), operation)(**{argument: value, **more})

    return remove


# In this order: dependants first. Names are those of LOOKS.
REMOVALS: dict[str, Remove] = {
    "instances": _instance,
    "volumes": _call("ec2", "delete_volume", "VolumeId"),
    "job definitions": _call("batch", "deregister_job_definition", "jobDefinition"),
    "launch templates": _call("ec2", "delete_launch_template", "LaunchTemplateId"),
    "VPC endpoints": _call("ec2", "delete_vpc_endpoints", "VpcEndpointIds", several=True),
    "subnets": _call("ec2", "delete_subnet", "SubnetId"),
    "security groups": _call("ec2", "delete_security_group", "GroupId"),
    "route tables": _route_table,
    "internet gateways": _gateway,
    "VPCs": _call("ec2", "delete_vpc", "VpcId"),
    "instance profiles": _profile,
    "roles": _role,
    "managed policies": _policy,
    "log groups": _call("logs", "delete_log_group", "logGroupName"),
    "image repositories": _call("ecr", "delete_repository", "repositoryName", force=True),
    "secrets": drop_secret,
    "budgets": lambda account, name: account.client("budgets").delete_budget(
        AccountId=account.number, BudgetName=name
    ),
    "template buckets": remove_bucket,
}


def sweep(account: Account, project: str, say: Say) -> None:
    batch = account.client("batch")
    for kind, argument, search in (
        ("job_queue", "jobQueue", queues_of),
        ("compute_environment", "computeEnvironment", environments_of),
    ):
        for row in search(batch, project):
            name = row[f"{argument}Name"]
            say(f"deleting {kind.replace('_', ' ')} {name}")
            _remove_slowly(batch, kind, argument, name, partial(search, batch, project))
    for kind, remove in REMOVALS.items():
        try:
            names = list(LOOKS[kind](account, project))
        except ClientError:
            continue  # the search afterwards reports it
        for name in names:
            try_to_remove(kind, name, partial(remove, account, name), say)


def try_to_remove(kind: str, name: str, remove: Callable[[], Any], say: Say) -> None:
    try:
        remove()
    except (ClientError, WaiterError) as error:
        if isinstance(error, WaiterError) or not gone(error):
            say(f"{kind}: {name} stays: {sentence(error)}")
        return
    say(f"deleted from {kind}: {name}")
