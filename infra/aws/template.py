"""The CloudFormation template of a stack."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.aws.account import TAG
from infra.aws.machines import MachineType
from infra.aws.settings import queue_name

BASE = Path(__file__).with_name("template.yaml")
BODY_BYTES = 51_200  # the most that CloudFormation takes in a request; 1 MB from a bucket
GPU_IMAGE, CPU_IMAGE = "ECS_AL2023_NVIDIA", "ECS_AL2023"
PURCHASES = {  # by the beginning of the logical ids: type, allocation strategy
    "OnDemand": ("EC2", "BEST_FIT_PROGRESSIVE"),
    "Spot": ("SPOT", "SPOT_PRICE_CAPACITY_OPTIMIZED"),
}
# Given to a running job when `up` changes its machines: the maximum of the API reference, UpdatePolicy.
JOB_MINUTES = 7200
WAIT_S = {  # after which a job that can't start no longer blocks the queue
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT": 600,
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE": 600,
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": 14400,
}
# A stack is deleted in the reverse order: machines must keep their route while Batch still ends them.
NETWORK = ["DefaultRoute", "RoutesOfA", "RoutesOfB"]


def body(project: str, machines: Sequence[MachineType]) -> str:
    return json.dumps(template(project, machines), separators=(",", ":"))


def template(project: str, machines: Sequence[MachineType]) -> dict[str, Any]:
    whole: dict[str, Any] = yaml.safe_load(BASE.read_text())
    for machine in machines:
        bare = "".join(filter(str.isalnum, machine.name))
        for purchase in PURCHASES:
            environment, queue = f"{purchase}Machines{bare}", f"{purchase}Queue{bare}"
            whole["Resources"][environment] = _environment(project, machine, purchase)
            whole["Resources"][queue] = _queue(project, machine, purchase, environment)
    names = ",".join(machine.name for machine in machines)
    whole["Outputs"]["InstanceTypes"] = {"Value": names}
    return whole


def _environment(project: str, machine: MachineType, purchase: str) -> dict[str, Any]:
    kind, strategy = PURCHASES[purchase]
    resources = {
        "Type": kind,
        "AllocationStrategy": strategy,
        "MinvCpus": 0,
        "MaxvCpus": {"Ref": "MaxGpuVcpus" if machine.gpus else "MaxCpuVcpus"},
        "InstanceTypes": [machine.name],
        "Subnets": [{"Ref": "SubnetA"}, {"Ref": "SubnetB"}],
        "SecurityGroupIds": [{"Ref": "EgressOnly"}],
        "InstanceRole": {"Fn::GetAtt": ["InstanceProfile", "Arn"]},
        "Ec2Configuration": [{"ImageType": GPU_IMAGE if machine.gpus else CPU_IMAGE}],
        "UpdateToLatestImageVersion": True,
        "LaunchTemplate": {
            "LaunchTemplateId": {"Ref": "LaunchTemplate"},
            "Version": {"Fn::GetAtt": ["LaunchTemplate", "LatestVersionNumber"]},
        },
        "Tags": {"Name": project, TAG: project},
    }
    properties = {
        "ComputeEnvironmentName": queue_name(project, machine.name, purchase == "Spot"),
        "Type": "MANAGED",
        "State": "ENABLED",
        "ReplaceComputeEnvironment": False,  # updates in place want the service-linked role: no ServiceRole
        "UpdatePolicy": {"TerminateJobsOnUpdate": False, "JobExecutionTimeoutMinutes": JOB_MINUTES},
        "ComputeResources": resources,
        "Tags": {TAG: project},
    }
    return {"Type": "AWS::Batch::ComputeEnvironment", "DependsOn": NETWORK, "Properties": properties}


def _queue(project: str, machine: MachineType, purchase: str, environment: str) -> dict[str, Any]:
    limits = [
        {"State": "RUNNABLE", "Reason": reason, "MaxTimeSeconds": most_s, "Action": "CANCEL"}
        for reason, most_s in WAIT_S.items()
    ]
    properties = {
        "JobQueueName": queue_name(project, machine.name, purchase == "Spot"),
        "Priority": 1,
        "State": "ENABLED",
        "ComputeEnvironmentOrder": [{"Order": 1, "ComputeEnvironment": {"Ref": environment}}],
        "JobStateTimeLimitActions": limits,
        "Tags": {TAG: project},
    }
    return {"Type": "AWS::Batch::JobQueue", "Properties": properties}
