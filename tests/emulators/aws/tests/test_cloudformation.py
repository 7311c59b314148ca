"""The emulated CloudFormation: what it refuses as AWS does, and stacks that come and go whole."""

import copy
import json
import re

import pytest
import yaml
from botocore.exceptions import ClientError

from tests.emulators.aws import language

QUEUE = {"Type": "AWS::Batch::JobQueue", "Properties": {"Priority": 1}}


def refused(template, given=()):
    with pytest.raises(language.TemplateError) as error:
        language.check({"Resources": {"Queue": QUEUE}} | template, dict(given))
    return str(error.value)


@pytest.mark.parametrize(
    "template",
    [
        {"Transform": "AWS::LanguageExtensions"},
        {"Resources": {"Fn::ForEach::Types": ["Type", ["a"], {"Queue${Type}": QUEUE}]}},
        {"Outputs": {"Fn::ForEach::Types": ["Type", ["a"], {"Queue${Type}": {"Value": "1"}}]}},
    ],
)
def test_loops_are_refused(template):
    assert refused(template) == "the emulator has no transforms and no loops: send a plain template"


def depends(**more):
    return {"Resources": {"Queue": QUEUE | more}}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            depends(Properties={"Name": {"Ref": "Vpc&{Type}"}}),
            r"dependencies \[Vpc&{Type}\] in the Resources",
        ),
        (depends(Properties={"Name": {"Fn::GetAtt": ["Role", "Arn"]}}), r"\[Role\] in the Resources block"),
        (depends(Properties={"Name": {"Fn::Sub": "${Role.Arn}/x"}}), r"\[Role\]"),
        (depends(DependsOn="Route"), r"\[Route\]"),
        (depends(Condition="HasGpu"), "Unresolved condition dependency HasGpu"),
        ({"Outputs": {"Arn": {"Value": {"Ref": "Gone"}}}}, r"\[Gone\] in the Outputs block"),
        ({"Extra": {}}, r"Invalid template property or properties \[Extra\]"),
        ({"Outputs": {f"O{n}": {"Value": "1"} for n in range(201)}}, "Number of outputs, 201, is greater"),
        ({"Parameters": {"Zone": {"Type": "String"}}}, r"Parameters: \[Zone\] must have values"),
    ],
)
def test_what_cannot_be_resolved_is_refused(template, words):
    assert re.search(words, refused(template))


def test_a_value_must_be_one_of_the_templates():
    slots = {"Zone": {"Type": "String", "AllowedPattern": "[a-z]+"}}
    assert "[Other] do not exist" in refused({"Parameters": slots}, {"Zone": "a", "Other": "b"})
    assert "failed to satisfy constraint" in refused({"Parameters": slots}, {"Zone": "1"})


def test_what_is_whole_is_taken():
    conditions = {"Conditions": {"Small": {"Fn::Equals": [{"Ref": "Size"}, "s"]}}}
    names = {"Fn::Sub": ["${AWS::Region}-${Own}-${!Literal}", {"Own": {"Ref": "Size"}}]}
    resources = depends(Condition="Small", Properties={"Name": names, "Arn": {"Ref": "AWS::StackId"}})
    language.check({"Parameters": {"Size": {"Type": "String"}}} | conditions | resources, {"Size": "s"})


def test_a_template_in_a_request_has_its_limit(aws):
    body = "{" + " " * 51_200 + "}"
    with pytest.raises(ClientError, match="less than or equal to 51200"):
        create(aws, TemplateBody=body)
    with pytest.raises(ClientError, match="TemplateURL must be a supported URL"):
        create(aws, TemplateURL="http://127.0.0.1/template.json")
    assert aws.client("cloudformation").describe_stacks()["Stacks"] == []


def create(aws, **template):
    cfn = aws.client("cloudformation")
    return cfn.create_change_set(StackName="bench", ChangeSetName="a", ChangeSetType="CREATE", **template)


BASE = """
Parameters:
  Most: {Type: Number, Default: 32}
  Days: {Type: Number, Default: 30}
  Email: {Type: String, Default: ""}
Conditions:
  HasEmail: {"Fn::Not": [{"Fn::Equals": [{Ref: Email}, ""]}]}
Resources:
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.20.0.0/16}}
  Subnet: {Type: AWS::EC2::Subnet, Properties: {VpcId: {Ref: Vpc}, CidrBlock: 10.20.0.0/20}}
  Routes: {Type: AWS::EC2::RouteTable, Properties: {VpcId: {Ref: Vpc}}}
  Association: {Type: AWS::EC2::SubnetRouteTableAssociation, Properties: {SubnetId: {Ref: Subnet}, RouteTableId: {Ref: Routes}}}
  Group: {Type: AWS::EC2::SecurityGroup, Properties: {GroupDescription: out, VpcId: {Ref: Vpc}}}
  Log: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: /bench/lanes, RetentionInDays: {Ref: Days}}}
  Policy:
    Type: AWS::IAM::ManagedPolicy
    Properties: {PolicyDocument: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: "batch:SubmitJob", Resource: "*"}]}}
  Role: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {Version: "2012-10-17", Statement: []}}}
  Profile: {Type: AWS::IAM::InstanceProfile, Properties: {Roles: [{Ref: Role}]}}
  Definition:
    Type: AWS::Batch::JobDefinition
    Properties:
      Type: container
      Timeout: {AttemptDurationSeconds: 3600}
      PropagateTags: true
      ContainerProperties:
        Image: lane
        ResourceRequirements: [{Type: VCPU, Value: "1"}, {Type: MEMORY, Value: "512"}]
        LogConfiguration: {LogDriver: awslogs, Options: {awslogs-group: {Ref: Log}}}
  Budget: {Type: AWS::Budgets::Budget, Condition: HasEmail, Properties: {Budget: {BudgetType: COST, TimeUnit: MONTHLY}}}
"""


def template(types):
    """The base with an environment and a queue for each type."""
    whole = yaml.safe_load(BASE)
    whole["Outputs"] = {}
    for name in types:
        bare = name.replace(".", "")
        environment, queue = copy.deepcopy(ENVIRONMENT), copy.deepcopy(A_QUEUE)
        environment["Properties"]["ComputeResources"]["InstanceTypes"] = [name]
        order = {"Order": 1, "ComputeEnvironment": {"Ref": f"Machines{bare}"}}
        queue["Properties"]["ComputeEnvironmentOrder"] = [order]
        whole["Resources"] |= {f"Machines{bare}": environment, f"Queue{bare}": queue}
        whole["Outputs"][f"Queue{bare}"] = {"Value": {"Ref": f"Queue{bare}"}}
    return json.dumps(whole)


ENVIRONMENT = {
    "Type": "AWS::Batch::ComputeEnvironment",
    "Properties": {
        "Type": "MANAGED",
        "ComputeResources": {
            "Type": "SPOT",
            "MinvCpus": 0,
            "MaxvCpus": {"Ref": "Most"},
            "Subnets": [{"Ref": "Subnet"}],
            "SecurityGroupIds": [{"Ref": "Group"}],
            "InstanceRole": {"Fn::GetAtt": ["Profile", "Arn"]},
            "Tags": {"Owner": "bench"},
        },
    },
}
LIMIT = {"State": "RUNNABLE", "Reason": "CAPACITY", "MaxTimeSeconds": 600, "Action": "CANCEL"}
A_QUEUE = {
    "Type": "AWS::Batch::JobQueue",
    "Properties": {"Priority": 1, "Tags": {"Owner": "bench"}, "JobStateTimeLimitActions": [LIMIT]},
}
BOTH = ("c5.2xlarge", "m5.2xlarge")


class Stack:
    """A stack that is changed by change sets only."""

    def __init__(self, aws):
        self.client, self.count = aws.client("cloudformation"), 0

    def change(self, kind="UPDATE", types=BOTH, **parameters):
        self.count += 1
        names = {"StackName": "bench", "ChangeSetName": f"change-{self.count}"}
        given = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        self.client.create_change_set(
            **names, ChangeSetType=kind, TemplateBody=template(types), Parameters=given
        )
        changes = self.client.describe_change_set(**names)["Changes"]
        self.client.execute_change_set(**names)
        return {
            (change["ResourceChange"]["Action"], change["ResourceChange"]["LogicalResourceId"])
            for change in changes
        }

    def outputs(self):
        stack = self.client.describe_stacks(StackName="bench")["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


@pytest.fixture
def stack(aws):
    return Stack(aws)


def machines(aws):
    told = aws.client("batch").describe_compute_environments()["computeEnvironments"]
    return {entry["computeResources"]["instanceTypes"][0]: entry["computeResources"] for entry in told}


def test_a_stack_is_made_as_the_template_says(aws, stack):
    added = stack.change("CREATE")
    assert ("Add", "Queuec52xlarge") in added
    assert ("Add", "Budget") not in added
    batch = aws.client("batch")
    queues = {queue["jobQueueArn"]: queue for queue in batch.describe_job_queues()["jobQueues"]}
    assert set(stack.outputs().values()) == set(queues)
    queue = queues[stack.outputs()["Queuem52xlarge"]]
    assert queue["tags"] == {"Owner": "bench"}
    assert queue["jobStateTimeLimitActions"] == [
        {"state": "RUNNABLE", "reason": "CAPACITY", "maxTimeSeconds": 600, "action": "CANCEL"}
    ]
    assert machines(aws)["c5.2xlarge"]["maxvCpus"] == 32
    assert machines(aws)["c5.2xlarge"]["tags"] == {"Owner": "bench"}
    definition = batch.describe_job_definitions()["jobDefinitions"][0]
    assert definition["timeout"] == {"attemptDurationSeconds": 3600}
    assert definition["propagateTags"] is True
    assert definition["containerProperties"]["logConfiguration"]["options"] == {
        "awslogs-group": "/bench/lanes"
    }


def test_a_stack_is_changed_and_leaves_nothing(aws, stack):
    stack.change("CREATE")
    changes = stack.change(types=["c5.2xlarge"], Most="48", Days="7")
    assert {change for change in changes if change[0] == "Remove"} == {
        ("Remove", "Machinesm52xlarge"),
        ("Remove", "Queuem52xlarge"),
    }
    assert ("Modify", "Machinesc52xlarge") in changes
    assert {name: entry["maxvCpus"] for name, entry in machines(aws).items()} == {"c5.2xlarge": 48}
    assert aws.client("logs").describe_log_groups()["logGroups"][0]["retentionInDays"] == 7
    assert set(stack.outputs()) == {"Queuec52xlarge"}
    stack.client.delete_stack(StackName="bench")
    assert left_of(aws) == []


def left_of(aws):
    ec2, iam, batch = aws.client("ec2"), aws.client("iam"), aws.client("batch")
    vpcs = ec2.describe_vpcs(Filters=[{"Name": "cidr", "Values": ["10.20.0.0/16"]}])["Vpcs"]
    roles = [role for role in iam.list_roles()["Roles"] if role["RoleName"] != "AWSServiceRoleForBatch"]
    return [
        *vpcs,
        *roles,
        *iam.list_policies(Scope="Local")["Policies"],
        *iam.list_instance_profiles()["InstanceProfiles"],
        *batch.describe_job_queues()["jobQueues"],
        *batch.describe_compute_environments()["computeEnvironments"],
        *aws.client("logs").describe_log_groups()["logGroups"],
    ]


def test_what_is_not_made_is_written_down():
    from tests.emulators.aws.cloudformation import unknown_types

    assert unknown_types(json.loads(template(BOTH))) == {"AWS::Budgets::Budget"}
