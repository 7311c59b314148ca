"""Service-linked roles as IAM has them; moto 5.2.5 names them otherwise, and another error says that one exists.

[doc] docs.aws.amazon.com/batch/latest/userguide/spot-fleet-roles-cli.html quotes the error; the names are in each service's
page "Using service-linked roles".
"""

from typing import Any

from moto.iam import models
from moto.iam.exceptions import IAMException, NotFoundException

NAMES = {"batch": "Batch", "ecs": "ECS", "autoscaling": "AutoScaling", "spot": "EC2Spot"}


class InvalidInput(IAMException):
    code = "InvalidInput"


def linked_role(backend: Any, service: str) -> str | None:
    """The ARN of a service's role; None where it is not there yet."""
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
    """Mends moto in this process; called once."""
    models.IAMBackend.create_service_linked_role = create_service_linked_role
