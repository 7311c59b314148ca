"""An account after `gridbench up aws`."""

import json
import time

from infra.aws.settings import queue_name

SMALL = ("--instances", "c5.2xlarge,g5.xlarge")


LISTS = {  # every list that a stack could leave something in, asked raw and not by our own code
    "ec2": (
        ("describe_vpcs", "Vpcs"),
        ("describe_subnets", "Subnets"),
        ("describe_route_tables", "RouteTables"),
        ("describe_internet_gateways", "InternetGateways"),
        ("describe_security_groups", "SecurityGroups"),
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_volumes", "Volumes"),
        ("describe_network_interfaces", "NetworkInterfaces"),
    ),
    "batch": (("describe_job_queues", "jobQueues"), ("describe_compute_environments", "computeEnvironments")),
    "logs": (("describe_log_groups", "logGroups"),),
    "ecr": (("describe_repositories", "repositories"),),
    "s3": (("list_buckets", "Buckets"),),
}


def inventory(aws):
    found = {}
    for service, lists in LISTS.items():
        for operation, key in lists:
            found[key] = len(getattr(aws.client(service), operation)()[key])
    ec2, iam = aws.client("ec2"), aws.client("iam")
    gone = {"deleted", "deleting"}
    found["endpoints"] = [e for e in ec2.describe_vpc_endpoints()["VpcEndpoints"] if e["State"] not in gone]
    running = [i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]]
    found["instances"] = [i["InstanceId"] for i in running if i["State"]["Name"] != "terminated"]
    roles = [role["RoleName"] for role in iam.list_roles()["Roles"]]
    found["roles"] = [name for name in roles if not name.startswith("AWSServiceRole")]
    found["profiles"] = len(iam.list_instance_profiles()["InstanceProfiles"])
    found["policies"] = len(iam.list_policies(Scope="Local")["Policies"])
    definitions = aws.client("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    return found | {"definitions": len(definitions)}


def submit(aws, image, command, instance="c5.2xlarge"):
    batch, variables = aws.client("batch"), pool_defaults()
    options = {"awslogs-group": variables["log_group"], "awslogs-stream-prefix": "test"}
    definition = batch.register_job_definition(
        jobDefinitionName="prefect-0123456789",
        type="container",
        containerProperties={
            "image": image,
            "command": command,
            "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "256"}],
            "jobRoleArn": variables["job_role_arn"],
            "executionRoleArn": variables["execution_role_arn"],
            "logConfiguration": {"logDriver": "awslogs", "options": options},
        },
    )["jobDefinitionArn"]
    queue = queue_name("gridbench", instance)
    return batch.submit_job(jobName="test", jobQueue=queue, jobDefinition=definition)["jobId"]


def pool_defaults():
    with open("aws-pool.json") as file:
        properties = json.load(file)["variables"]["properties"]
    return {name: value.get("default") for name, value in properties.items()}


def wait(aws, job, states):
    while True:
        (row,) = aws.client("batch").describe_jobs(jobs=[job])["jobs"]
        if row["status"] in states:
            return row
        time.sleep(0.1)
