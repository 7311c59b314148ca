import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from infra.aws.account import Account
from infra.aws.first_use import DISK_KEY, SERVICES, prepare

TAKEN = "Service role name AWSServiceRoleForEC2Spot has been taken in this account, please try a different suffix."


@pytest.fixture
def clients():
    keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return {service: boto3.client(service, **keys) for service in ("iam", "kms")}


def run(clients, roles, key):
    """Set each role's answer, then the key's: None is success, else an error's code."""
    with Stubber(clients["iam"]) as iam, Stubber(clients["kms"]) as kms:
        for service, code in zip(SERVICES, roles, strict=True):
            wanted = {"AWSServiceName": service}
            if code:
                iam.add_client_error("create_service_linked_role", code, TAKEN, expected_params=wanted)
            else:
                iam.add_response("create_service_linked_role", {}, wanted)
        if key:
            kms.add_client_error("describe_key", key, expected_params={"KeyId": DISK_KEY})
        else:
            kms.add_response("describe_key", {"KeyMetadata": {"KeyId": "1"}}, {"KeyId": DISK_KEY})
        prepare(Account(clients.__getitem__, "us-east-1", "123456789012"))
        iam.assert_no_pending_responses()
        kms.assert_no_pending_responses()


def test_an_untouched_account_gets_the_roles_of_all_services_that_batch_needs(clients):
    assert {service.partition(".")[0] for service in SERVICES} == {"batch", "ecs", "autoscaling", "spot"}
    run(clients, [None] * 4, None)


def test_existing_or_forbidden_service_roles_are_left_alone(clients):
    run(clients, ["InvalidInput", "AccessDenied", "InvalidInput", None], "AccessDeniedException")


def test_an_unexpected_error_at_first_use_is_raised(clients):
    with pytest.raises(ClientError, match="ServiceFailure"):
        run(clients, ["InvalidInput", "ServiceFailure", None, None], None)
