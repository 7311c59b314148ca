"""The template's roles may do no more than AWS makes us allow."""

import json
from importlib.resources import files

import pytest

from tests.infra.aws.template_text import TEMPLATE, TEXT, expanded, of_type


def statements(template=TEMPLATE):
    """Every statement of every policy, with the name of its resource."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        inline = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        own = [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
        for document in inline + own:
            for statement in document["Statement"]:
                yield name, statement["Fn::If"][1] if "Fn::If" in statement else statement


def as_list(value):
    return value if isinstance(value, list) else [value]


def needs_wildcard(action):
    """Whether AWS knows no resource for an action, by the Service Authorization Reference that cfn-lint ships."""
    service, _, name = action.lower().partition(":")
    reference = json.loads((files("cfnlint") / "data/AdditionalSpecs/Policies.json").read_text())
    return not reference[service]["Actions"][name].get("Resources")


def careless(template=TEMPLATE):
    """Actions on everything that AWS would let us narrow, and actions with wildcards."""
    found = []
    for name, statement in statements(template):
        actions = as_list(statement["Action"])
        found += [(name, action) for action in actions if "*" in action]
        if "*" in as_list(statement["Resource"]):
            found += [
                (name, action) for action in actions if "*" not in action and not needs_wildcard(action)
            ]
    return found


def test_no_role_may_do_more_than_aws_makes_us_allow():
    assert len(list(statements())) > 10
    assert careless() == []


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("Resource: !GetAtt Repository.Arn", 'Resource: "*"', ("ExecutionRole", "ecr:BatchGetImage")),
        ('Action: "logs:GetLogEvents"', 'Action: "logs:*"', ("WorkerPolicy", "logs:*")),
        (
            'Action: "secretsmanager:GetSecretValue", Resource: !Ref PrefectApiKeySecretArn',
            'Action: "secretsmanager:GetSecretValue", Resource: "*"',
            ("ExecutionRole", "secretsmanager:GetSecretValue"),
        ),
    ],
)
def test_a_careless_role_would_be_seen(right, wrong, found):
    assert right in TEXT
    assert found in careless(expanded(TEXT.replace(right, wrong)))


def test_roles_are_our_own_and_the_jobs_have_no_rights():
    roles = of_type("AWS::IAM::Role")
    assert all("ManagedPolicyArns" not in role for role in roles.values())  # AWS's own have wildcards
    assert "Policies" not in roles["JobRole"]
    for role in roles.values():
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"]["Service"] in ("ec2.amazonaws.com", "ecs-tasks.amazonaws.com")
