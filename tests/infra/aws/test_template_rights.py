import json
from importlib.resources import files

import pytest

from tests.infra.aws.template_text import TEMPLATE, TEXT, of_type


def statements(template=TEMPLATE):
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
    """Return whether AWS has no resource for an action, by cfn-lint's Service Authorization Reference."""
    service, _, name = action.lower().partition(":")
    reference = json.loads((files("cfnlint") / "data/AdditionalSpecs/Policies.json").read_text())
    return not reference[service]["Actions"][name].get("Resources")


def careless(template=TEMPLATE):
    """Return actions on everything that AWS lets us narrow, and actions with wildcards."""
    found = []
    for name, statement in statements(template):
        actions = as_list(statement["Action"])
        found += [(name, action) for action in actions if "*" in action]
        if "*" in as_list(statement["Resource"]):
            found += [
                (name, action) for action in actions if "*" not in action and not needs_wildcard(action)
            ]
    return found


def test_no_role_has_more_rights_than_aws_requires():
    assert len(list(statements())) > 10
    assert careless() == []


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        (
            '"Resource":{"Fn::GetAtt":["Repository","Arn"]}',
            '"Resource":"*"',
            ("ExecutionRole", "ecr:BatchGetImage"),
        ),
        ('"Action":"logs:GetLogEvents"', '"Action":"logs:*"', ("WorkerPolicy", "logs:*")),
        (
            '"Action":"secretsmanager:GetSecretValue","Resource":{"Ref":"PrefectApiKeySecretArn"}',
            '"Action":"secretsmanager:GetSecretValue","Resource":"*"',
            ("ExecutionRole", "secretsmanager:GetSecretValue"),
        ),
    ],
)
def test_a_careless_role_would_be_seen(right, wrong, found):
    assert right in TEXT
    assert found in careless(json.loads(TEXT.replace(right, wrong)))


def test_roles_are_our_own_and_the_jobs_have_no_rights():
    roles = of_type("AWS::IAM::Role")
    assert all("ManagedPolicyArns" not in role for role in roles.values())  # AWS's own have wildcards
    assert "Policies" not in roles["JobRole"]
    for role in roles.values():
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"]["Service"] in ("ec2.amazonaws.com", "ecs-tasks.amazonaws.com")


def by_action(name, action):
    (statement,) = [s for owner, s in statements() if owner == name and action in as_list(s["Action"])]
    return statement


def test_the_worker_can_pass_the_roles_to_batch_and_to_ecs():
    passing = by_action("WorkerPolicy", "iam:PassRole")
    services = passing["Condition"]["StringEquals"]["iam:PassedToService"]
    assert services == ["batch.amazonaws.com", "ecs-tasks.amazonaws.com"]
    assert passing["Resource"] == [{"Fn::GetAtt": [name, "Arn"]} for name in ("JobRole", "ExecutionRole")]


def test_only_the_jobs_role_asks_which_account_takes_it():
    trusts = {
        name: role["AssumeRolePolicyDocument"]["Statement"][0]
        for name, role in of_type("AWS::IAM::Role").items()
    }
    assert [name for name, statement in trusts.items() if "Condition" in statement] == ["JobRole"]


def test_a_machine_speaks_for_the_clusters_of_its_own_project_alone():
    """A container can get the machine's role from the metadata service."""
    clusters = [{"Fn::Sub": CLUSTER.format(name)} for name in ("AWSBatch-${Project}-*", "${Project}-*")]
    assert by_action("InstanceRole", "ecs:SubmitTaskStateChange")["Resource"] == clusters
    assert by_action("InstanceRole", "ecs:Poll")["Condition"] == {"ArnLike": {"ecs:cluster": clusters}}


CLUSTER = "arn:${{AWS::Partition}}:ecs:${{AWS::Region}}:${{AWS::AccountId}}:cluster/{}"
