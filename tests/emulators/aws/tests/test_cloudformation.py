"""The emulated CloudFormation: loops written out as AWS writes them, and stacks that come and go whole."""

import json

import pytest
import yaml

from tests.emulators.aws import language

TYPES = {"Type": "CommaDelimitedList", "Default": "g5.xlarge,c5.2xlarge"}


def processed(resources, parameters=None, **sections):
    template = {
        "Transform": language.TRANSFORM,
        "Parameters": {"Types": TYPES},
        "Resources": resources,
        **sections,
    }
    language.process(template, parameters or {})
    return template["Resources"]


def test_a_loop_over_a_parameter_is_written_out():
    body = {
        "Queue&{Type}": {"Type": "X", "Properties": {"Name": "q-${Type}", "Other": {"Fn::Sub": "${Project}"}}}
    }
    loop = {"Fn::ForEach::Types": ["Type", {"Ref": "Types"}, body]}
    assert processed(loop)["Queueg5xlarge"]["Properties"] == {
        "Name": "q-g5.xlarge",
        "Other": {"Fn::Sub": "${Project}"},
    }
    assert set(processed(loop)) == {"Queueg5xlarge", "Queuec52xlarge"}
    assert set(processed(loop, {"Types": "p5.48xlarge"})) == {"Queuep548xlarge"}


def test_loops_are_nested_and_computed_ids_resolved():
    inner = {"${Buy}&{Type}": {"Type": "X", "Properties": {"Id": {"Ref": {"Fn::Sub": "${Buy}&{Type}"}}}}}
    loop = {"Fn::ForEach::A": ["Type", ["g5.xlarge"], {"Fn::ForEach::B": ["Buy", ["Spot", "Owned"], inner]}]}
    assert processed(loop) == {
        "Spotg5xlarge": {"Type": "X", "Properties": {"Id": {"Ref": "Spotg5xlarge"}}},
        "Ownedg5xlarge": {"Type": "X", "Properties": {"Id": {"Ref": "Ownedg5xlarge"}}},
    }


def test_a_look_up_may_have_a_default():
    maps = {"Gpus": {"g5": {"Count": 1}}}
    wanted = {"Fn::FindInMap": ["Gpus", {"Ref": "Types"}, "Count", {"DefaultValue": 0}]}
    resources = {"A": {"Type": "X", "Properties": {"Gpus": wanted}}}
    assert processed(resources, {"Types": "c5"}, Mappings=maps)["A"]["Properties"]["Gpus"] == 0
    assert processed(resources, {"Types": "g5"}, Mappings=maps)["A"]["Properties"]["Gpus"] == 1


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (["Type", ["a.b", "ab"], {"Q&{Type}": {"Type": "X"}}], "comes out twice"),
        (["Type", {"Ref": "Nothing"}, {"Q&{Type}": {"Type": "X"}}], "no parameter Nothing"),
        (["Type", {"Q&{Type}": {}}], "an identifier, a collection and a map"),
    ],
)
def test_a_wrong_loop_is_refused(loop, said):
    with pytest.raises(language.TemplateError, match=said):
        processed({"Fn::ForEach::Types": loop})


def test_without_the_transform_nothing_is_touched():
    template = {"Resources": {"Fn::ForEach::Types": ["Type", ["a"], {}]}}
    language.process(template, {})
    assert template == {"Resources": {"Fn::ForEach::Types": ["Type", ["a"], {}]}}


TEMPLATE = """
Transform: AWS::LanguageExtensions
Parameters:
  Types: {Type: CommaDelimitedList, Default: "c5.2xlarge,m5.2xlarge"}
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
  Fn::ForEach::Queues:
    - Type
    - {Ref: Types}
    - Machines&{Type}:
        Type: AWS::Batch::ComputeEnvironment
        Properties:
          Type: MANAGED
          ComputeResources:
            Type: SPOT
            MinvCpus: 0
            MaxvCpus: {Ref: Most}
            InstanceTypes: ["${Type}"]
            Subnets: [{Ref: Subnet}]
            SecurityGroupIds: [{Ref: Group}]
            InstanceRole: {"Fn::GetAtt": [Profile, Arn]}
            Tags: {Owner: bench}
      Queue&{Type}:
        Type: AWS::Batch::JobQueue
        Properties:
          Priority: 1
          Tags: {Owner: bench}
          ComputeEnvironmentOrder: [{Order: 1, ComputeEnvironment: {Ref: "Machines&{Type}"}}]
          JobStateTimeLimitActions: [{State: RUNNABLE, Reason: CAPACITY, MaxTimeSeconds: 600, Action: CANCEL}]
Outputs:
  Fn::ForEach::Told:
    - Type
    - {Ref: Types}
    - Queue&{Type}: {Value: {Ref: "Queue&{Type}"}}
"""


class Stack:
    """A stack that is changed by change sets only."""

    def __init__(self, aws):
        self.client, self.count = aws.client("cloudformation"), 0

    def change(self, kind="UPDATE", **parameters):
        self.count += 1
        names = {"StackName": "bench", "ChangeSetName": f"change-{self.count}"}
        given = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        self.client.create_change_set(**names, ChangeSetType=kind, TemplateBody=TEMPLATE, Parameters=given)
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
    changes = stack.change(Types="c5.2xlarge", Most="48", Days="7")
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

    resources = yaml.safe_load(TEMPLATE)["Resources"]
    template = {"Transform": language.TRANSFORM, "Resources": json.loads(json.dumps(resources))}
    language.process(template, {"Types": "c5.2xlarge"})
    assert unknown_types(template) == {"AWS::Budgets::Budget"}
