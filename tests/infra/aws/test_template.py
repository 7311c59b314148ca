"""The template: clean for cfn-lint, and what cfn-lint does not see."""

import gzip
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from infra.aws import settings
from infra.aws.machines import UNUSABLE, MachineType, check_cap
from infra.aws.pool import filled_template
from tests.infra.aws.template_text import TEMPLATE, TEXT, of_type

# AWS Batch API reference, Ec2Configuration, imageType, read 2026-11: the ones that new environments may have.
IMAGE_TYPES = {"ECS_AL2023", "ECS_AL2023_NVIDIA"}


BODY_BYTES = 51_200  # CloudFormation's limit for a template that is sent in the request


@pytest.fixture(scope="module")
def instance_types():
    """EC2's own answer for us-east-1, as moto ships it."""
    packed = files("moto.ec2") / "resources/instance_types.json.gz"
    return json.loads(gzip.decompress(packed.read_bytes()))


def default_types(kind):
    return TEMPLATE["Parameters"][f"{kind}InstanceTypes"]["Default"].split(",")


def gpus_of(row):
    return [gpu["Manufacturer"] for gpu in row.get("GpuInfo", {}).get("Gpus", [])]


def test_every_instance_type_exists_and_is_where_it_belongs(instance_types):
    for name in default_types("Gpu"):
        assert gpus_of(instance_types[name]) == ["NVIDIA"]
    for name in default_types("Cpu"):
        assert gpus_of(instance_types[name]) == []
    for name in default_types("Gpu") + default_types("Cpu"):
        assert instance_types[name]["ProcessorInfo"]["SupportedArchitectures"][-1] == "x86_64"
        assert name.partition(".")[0] not in UNUSABLE


def test_every_default_type_fits_under_its_cap(instance_types):
    for kind in ("Gpu", "Cpu"):
        cap = TEMPLATE["Parameters"][f"Max{kind}Vcpus"]["Default"]
        for name in default_types(kind):
            vcpus = instance_types[name]["VCpuInfo"]["DefaultVCpus"]
            check_cap([MachineType(name, vcpus, 0, 0)], cap, "cap")


def test_each_type_has_a_queue_of_its_own_on_demand_and_spot():
    queues, environments = of_type("AWS::Batch::JobQueue"), of_type("AWS::Batch::ComputeEnvironment")
    types = default_types("Gpu") + default_types("Cpu")
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
    text, values = TEMPLATE["Resources"][name]["Properties"]["JobQueueName"]["Fn::Sub"]
    separator, split = values["Dashed"]["Fn::Join"]
    at, whole = split["Fn::Split"]
    made = text.replace("${Project}", "gridbench").replace("${Dashed}", separator.join(whole.split(at)))
    assert made.replace("${Suffix}", values["Suffix"]) == settings.queue_name("gridbench", instance, spot)


def test_nothing_runs_idle_and_updates_happen_in_place():
    for properties in of_type("AWS::Batch::ComputeEnvironment").values():
        machines = properties["ComputeResources"]
        assert machines["MinvCpus"] == 0
        assert "ServiceRole" not in properties  # only the service-linked role updates in place
        assert properties["ReplaceComputeEnvironment"] is False
        gpu = gpus_wanted(machines["InstanceTypes"][0])
        assert machines["Ec2Configuration"] == [{"ImageType": "ECS_AL2023_NVIDIA" if gpu else "ECS_AL2023"}]
        assert machines["Ec2Configuration"][0]["ImageType"] in IMAGE_TYPES
        expected = {"EC2": "BEST_FIT_PROGRESSIVE", "SPOT": "SPOT_PRICE_CAPACITY_OPTIMIZED"}
        assert machines["AllocationStrategy"] == expected[machines["Type"]]
        assert "BidPercentage" not in machines


def gpus_wanted(instance):
    return instance in default_types("Gpu")


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
        "DeleteOnTermination": True,
    }


def test_nothing_comes_in():
    (group,) = of_type("AWS::EC2::SecurityGroup").values()
    assert "SecurityGroupIngress" not in group
    assert group["SecurityGroupEgress"][0]["FromPort"] == 443


def empty_values(node, path=""):
    """Keys without a value: an unquoted comma in a flow mapping makes them, and cfn-lint drops them in silence."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [f"{path}.{key}"] if value is None else empty_values(value, f"{path}.{key}")
    elif isinstance(node, list):
        for entry in node:
            yield from empty_values(entry, path)


class Plain(yaml.SafeLoader):
    """YAML as it stands, whatever CloudFormation's tags mean."""


def untagged(loader, suffix, node):
    kinds = {yaml.ScalarNode: loader.construct_scalar, yaml.SequenceNode: loader.construct_sequence}
    return kinds.get(type(node), loader.construct_mapping)(node)


Plain.add_multi_constructor("!", untagged)


def test_no_key_lost_its_value():
    assert list(empty_values(yaml.load(TEXT, Plain))) == []
    comma = TEXT.replace('"AWS, registries, Prefect Cloud"', "AWS, registries")
    assert list(empty_values(yaml.load(comma, Plain))) == [
        ".Resources.EgressOnly.Properties.SecurityGroupEgress.registries"
    ]


def names_used(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "Ref" and isinstance(value, str):
                yield value
            elif key == "Fn::Sub":
                yield from re.findall(r"\$\{(\w+)\}", value if isinstance(value, str) else value[0])
            yield from names_used(value)
    elif isinstance(node, list):
        for entry in node:
            yield from names_used(entry)


def test_every_parameter_is_used():
    used = {*names_used(TEMPLATE["Resources"]), *names_used(TEMPLATE["Conditions"])}
    looped = {"GpuInstanceTypes", "CpuInstanceTypes"}
    assert set(TEMPLATE["Parameters"]) - used - looped == set()
    assert all(f"!Ref {name}\n" in TEXT for name in looped)


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
    assert default_types("Gpu") + default_types("Cpu") == list(settings.INSTANCES)
    machines = [MachineType("g5.xlarge", 4, 16384, 1)]
    found = settings.parameters(settings.StackOptions("gridbench"), machines, ("a", "b"), {})
    for name, slot in TEMPLATE["Parameters"].items():
        if "Default" in slot and not name.endswith("InstanceTypes"):
            assert found[name] == str(slot["Default"]), name
    assert TEMPLATE["Parameters"]["LogRetentionDays"]["AllowedValues"] == list(settings.LOG_DAYS)


def test_everything_that_can_be_found_by_tag_has_it():
    kinds = {"VPC", "Subnet", "RouteTable", "InternetGateway", "SecurityGroup", "VPCEndpoint"}
    for name, resource in TEMPLATE["Resources"].items():
        kind = resource["Type"].rpartition("::")[2]
        if kind in kinds | {"Role", "Repository", "LogGroup", "Bucket"}:
            assert {"Key": "gridbench", "Value": {"Ref": "Project"}} in resource["Properties"]["Tags"], name
        if kind in ("ComputeEnvironment", "JobQueue"):
            assert resource["Properties"]["Tags"] == {"gridbench": {"Ref": "Project"}}
    for machines in resources():
        assert machines["Tags"]["gridbench"] == {"Ref": "Project"}


def test_the_text_is_one_that_cloudformation_takes():
    assert len(TEXT.encode()) < BODY_BYTES
    tokens = list(yaml.scan(TEXT))
    assert not [token for token in tokens if isinstance(token, yaml.AliasToken | yaml.AnchorToken)]
    assert len(TEMPLATE["Resources"]) < 500 and len(TEMPLATE["Outputs"]) < 200


def test_a_pool_variable_that_the_worker_lacks_is_a_mistake_of_ours():
    template = {"variables": {"properties": {"region": {}}, "required": ["region"]}}
    assert filled_template(template, {"region": "x"})["variables"] == {
        "properties": {"region": {"default": "x"}},
        "required": [],
    }
    with pytest.raises(KeyError):
        filled_template(template, {"regoin": "x"})


def test_the_template_is_part_of_the_package():
    assert Path(settings.TEMPLATE).is_file()
