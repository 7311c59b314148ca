"""Service-linked roles with IAM's names and errors, which differ in moto 5.2.5.

[doc] docs.aws.amazon.com/batch/latest/userguide/spot-fleet-roles-cli.html quotes the error; the names are on
each service's page "Using service-linked roles".
"""

from typing import Any

from moto.iam import models
from moto.iam.exceptions import IAMException, NotFoundException

NAMES = {"batch": "Batch", "ecs": "ECS", "autoscaling": "AutoScaling", "spot": "EC2Spot"}


class InvalidInput(IAMException):
    code = "InvalidInput"


def linked_role(backend: Any, service: str) -> str | None:
    name = f"AWSServiceRoleFor{NAMES[service]}"
    arn = f"arn:aws:iam::{backend.account_id}:role/aws-service-role/{service}.amazonaws.com/{name}"
    try:
        backend.get_role_by_arn(arn)
    except NotFoundException:
        return None
    return arn


def create_service_linked_role(self: Any, service_name: str, description: str, suffix: str) -> Any:
    service = service_name.partition(".")[0]
    name = f"AWSServiceRoleFor{NAMES[service]}"
    if linked_role(self, service):
        raise InvalidInput(
            f"Service role name {name} has been taken in this account, please try a different suffix."
        )
    path = f"/aws-service-role/{service_name}/"
    return self.create_role(name, "{}", path, None, description, [], "3600", linked_service=service_name)


def install() -> None:
    models.IAMBackend.create_service_linked_role = create_service_linked_role
