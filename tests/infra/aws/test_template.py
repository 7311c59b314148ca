import json
import re

import pytest
import yaml

from infra.aws import settings, template
from infra.aws.machines import UNUSABLE, MachineType, check_cap
from infra.aws.pool import filled_template
from infra.aws.stack import CAPABILITIES
from infra.aws.template import BASE, BODY_BYTES, JOB_MINUTES
from tests.infra.aws.template_text import EC2_TYPES, MACHINES, MANY, TEMPLATE, TEXT, gpus_of, of_type

# AWS Batch API reference, Ec2Configuration, imageType, read 2026-11: allowed in new environments.
IMAGE_TYPES = {"ECS_AL2023", "ECS_AL2023_NVIDIA"}


def test_the_template_that_is_sent_is_plain_json():
    assert json.loads(TEXT) == template.template("gridbench", MACHINES)
    for words in ("Transform", "ForEach", "&{", "FindInMap"):
        assert words not in TEXT
    assert CAPABILITIES == ["CAPABILITY_IAM"]
    assert json.dumps(json.loads(TEXT), separators=(",", ":")) == TEXT  # no byte is spent on its looks


def test_the_default_types_fit_into_a_request():
    assert len(TEXT.encode()) < BODY_BYTES == 51_200  # CloudFormation's limit


def test_the_most_types_fit_into_a_file():
    assert len(MANY) == settings.MOST_TYPES
    whole = template.body("a-project-of-21-chars", MANY)
    assert BODY_BYTES < len(whole.encode()) < 1_000_000  # CloudFormation's limit for a file in a bucket
    assert len(json.loads(whole)["Resources"]) < 500


def test_every_instance_type_exists_and_is_where_it_belongs():
    for name in settings.INSTANCES:
        assert EC2_TYPES[name]["ProcessorInfo"]["SupportedArchitectures"][-1] == "x86_64"
        assert name.partition(".")[0] not in UNUSABLE


def test_every_default_type_fits_under_its_cap():
    for machine in MACHINES:
        cap = TEMPLATE["Parameters"]["MaxGpuVcpus" if machine.gpus else "MaxCpuVcpus"]["Default"]
        check_cap([machine], cap, "cap")


def test_each_type_has_a_queue_of_its_own_on_demand_and_spot():
    queues, environments = of_type("AWS::Batch::JobQueue"), of_type("AWS::Batch::ComputeEnvironment")
    types = settings.INSTANCES
    assert len(queues) == len(environments) == 2 * len(types)
    for name, queue in queues.items():
        (order,) = queue["ComputeEnvironmentOrder"]
        assert order["ComputeEnvironment"] == {"Ref": name.replace("Queue", "Machines")}
    assert sorted(r["InstanceTypes"][0] for r in resources()) == sorted(2 * types)


def resources():
    return [
        properties["ComputeResources"] for properties in of_type("AWS::Batch::ComputeEnvironment").values()
    ]


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("instance", ["g5.8xlarge", "c5.2xlarge"])
def test_a_queue_is_named_as_the_pool_expects(instance, spot):
    prefix = "Spot" if spot else "OnDemand"
    name = f"{prefix}Queue{instance.replace('.', '')}"
    expected = settings.queue_name("gridbench", instance, spot)
    assert TEMPLATE["Resources"][name]["Properties"]["JobQueueName"] == expected


def test_nothing_runs_idle_and_updates_happen_in_place():
    for properties in of_type("AWS::Batch::ComputeEnvironment").values():
        machines = properties["ComputeResources"]
        assert machines["MinvCpus"] == 0
        assert "ServiceRole" not in properties  # only the service-linked role updates in place
        assert properties["ReplaceComputeEnvironment"] is False
        gpu = gpus_of(machines["InstanceTypes"][0])
        assert machines["MaxvCpus"] == {"Ref": "MaxGpuVcpus" if gpu else "MaxCpuVcpus"}
        assert machines["Ec2Configuration"] == [{"ImageType": "ECS_AL2023_NVIDIA" if gpu else "ECS_AL2023"}]
        assert machines["Ec2Configuration"][0]["ImageType"] in IMAGE_TYPES
        expected = {"EC2": "BEST_FIT_PROGRESSIVE", "SPOT": "SPOT_PRICE_CAPACITY_OPTIMIZED"}
        assert machines["AllocationStrategy"] == expected[machines["Type"]]
        assert "BidPercentage" not in machines


def test_a_change_lets_running_jobs_end():
    for properties in of_type("AWS::Batch::ComputeEnvironment").values():
        assert properties["UpdatePolicy"] == {
            "TerminateJobsOnUpdate": False,
            "JobExecutionTimeoutMinutes": JOB_MINUTES,
        }
    assert JOB_MINUTES * 60 > 7 * 43_200  # the longest timeout of deployments/hardware, and more


def needs(name):
    resource = TEMPLATE["Resources"][name]
    after = resource.get("DependsOn", [])
    direct = {*names_used(resource), *([after] if isinstance(after, str) else after)} & TEMPLATE[
        "Resources"
    ].keys()
    return direct.union(*map(needs, direct))


def test_no_machine_loses_its_network_before_it_ends():
    network = {"DefaultRoute", "GatewayAttachment", "RoutesOfA", "RoutesOfB", "EgressOnly", "InstanceProfile"}
    for name in of_type("AWS::Batch::ComputeEnvironment"):
        assert network <= needs(name), name


def test_metadata_needs_a_token_and_reaches_containers():
    (template,) = of_type("AWS::EC2::LaunchTemplate").values()
    data = template["LaunchTemplateData"]
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
    }
    (disk,) = data["BlockDeviceMappings"]
    assert disk["DeviceName"] == "/dev/xvda"
    assert disk["Ebs"] == {
        "VolumeSize": 100,
        "VolumeType": "gp3",
        "Encrypted": True,
        "KmsKeyId": "alias/aws/ebs",  # Auto Scaling might not be allowed to use the account's default key
        "DeleteOnTermination": True,
    }


def test_the_security_group_has_no_ingress():
    (group,) = of_type("AWS::EC2::SecurityGroup").values()
    assert "SecurityGroupIngress" not in group
    assert group["SecurityGroupEgress"][0]["FromPort"] == 443


def empty_values(node, path=""):
    """Return keys without a value: an unquoted comma in a flow mapping makes them, and cfn-lint drops them
    silently.
    """
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [f"{path}.{key}"] if value is None else empty_values(value, f"{path}.{key}")
    elif isinstance(node, list):
        for entry in node:
            yield from empty_values(entry, path)


def test_no_key_lost_its_value():
    text = BASE.read_text()
    assert list(empty_values(yaml.safe_load(text))) == []
    comma = text.replace('"AWS, registries, Prefect Cloud"', "AWS, registries")
    assert list(empty_values(yaml.safe_load(comma))) == [
        ".Resources.EgressOnly.Properties.SecurityGroupEgress.registries"
    ]


def names_used(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "Ref" and isinstance(value, str):
                yield value
            elif key == "Fn::Sub":
                yield from re.findall(r"\$\{(\w+)\}", value if isinstance(value, str) else value[0])
            elif key == "Fn::GetAtt":
                yield value[0]
            yield from names_used(value)
    elif isinstance(node, list):
        for entry in node:
            yield from names_used(entry)


def test_every_parameter_is_used():
    used = {*names_used(TEMPLATE["Resources"]), *names_used(TEMPLATE["Conditions"])}
    assert set(TEMPLATE["Parameters"]) - used == set()


def test_our_parameters_are_the_templates_and_pass_its_patterns():
    machines = [MachineType("g5.xlarge", 4, 16384, 1), MachineType("c5.2xlarge", 8, 16384, 0)]
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:prefect-AbCdEf"
    wishes = settings.StackOptions(
        "gridbench", secret_arn=secret, auth_secret_arn=secret, email="a@example.com"
    )
    found = settings.parameters(wishes, machines, ("us-east-1a", "us-east-1b"), {})
    slots = TEMPLATE["Parameters"]
    assert set(found) == set(slots)
    for name, value in found.items():
        assert re.search(slots[name].get("AllowedPattern", ""), value), name
        assert not slots[name].get("AllowedValues") or int(value) in slots[name]["AllowedValues"]


def test_our_defaults_are_the_templates():
    assert settings.instances_of({"InstanceTypes": TEMPLATE["Outputs"]["InstanceTypes"]["Value"]}) == (
        settings.INSTANCES
    )
    machines = [MachineType("g5.xlarge", 4, 16384, 1)]
    found = settings.parameters(settings.StackOptions("gridbench"), machines, ("a", "b"), {})
    for name, slot in TEMPLATE["Parameters"].items():
        if "Default" in slot:
            assert found[name] == str(slot["Default"]), name
    assert TEMPLATE["Parameters"]["LogRetentionDays"]["AllowedValues"] == list(settings.LOG_DAYS)


def test_everything_that_can_be_found_by_tag_has_it():
    kinds = {"VPC", "Subnet", "RouteTable", "InternetGateway", "SecurityGroup", "VPCEndpoint"}
    for name, resource in TEMPLATE["Resources"].items():
        kind = resource["Type"].rpartition("::")[2]
        if kind in kinds | {"Role", "Repository", "LogGroup", "Bucket"}:
            assert {"Key": "gridbench", "Value": {"Ref": "Project"}} in resource["Properties"]["Tags"], name
        if kind in ("ComputeEnvironment", "JobQueue"):
            assert resource["Properties"]["Tags"] == {"gridbench": "gridbench"}
    for machines in resources():
        assert machines["Tags"]["gridbench"] == "gridbench"


def test_a_pool_variable_that_the_worker_lacks_is_a_mistake_of_ours():
    template = {"variables": {"properties": {"region": {}}, "required": ["region"]}}
    assert filled_template(template, {"region": "x"})["variables"] == {
        "properties": {"region": {"default": "x"}},
        "required": [],
    }
    with pytest.raises(KeyError):
        filled_template(template, {"regoin": "x"})
