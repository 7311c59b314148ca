"""Cloud emulators as pytest fixtures. Heavy modules are imported on first use."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

REGION = "us-east-1"
MAX_VCPUS = 256


@dataclass
class Aws:
    url: str
    control: Any
    environment: dict[str, str]
    queues: dict[str, str] = field(default_factory=dict)

    def client(self, service: str, **options: Any) -> Any:
        import boto3

        return boto3.client(service, region_name=REGION, endpoint_url=self.url, **options)

    def reset(self) -> None:
        from tests.emulators.aws.server import empty_account

        empty_account()
        self.queues.clear()


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of this process for one test; a session's would affect other tests."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    from tests.emulators import containers

    with containers.docker_socket() as host, environment(DOCKER_HOST=host):
        try:
            yield host
        finally:
            containers.remove_containers(f"{containers.LABEL}={os.getpid()}")


@pytest.fixture(scope="session")
def base_image() -> str:
    from tests.emulators import containers

    return containers.base_image()


@contextlib.contextmanager
def emulated_aws() -> Iterator[Aws]:
    """Yield AWS on a local port; DOCKER_HOST must name podman's API, and users set the `environment`."""
    from tests.emulators.aws.control import control
    from tests.emulators.aws.server import aws_server

    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "MOTO_DOCKER_NETWORK_MODE": "host",
        "GRIDBENCH_LOOPBACK_API": "true",  # as a consequence: jobs reach a Prefect server of this machine
    }
    with aws_server() as url:
        yield Aws(url, control, settings | {"AWS_ENDPOINT_URL": url})


@pytest.fixture(scope="session")
def aws_account(docker_host: str) -> Iterator[Aws]:
    """AWS for the whole session; tests take `aws`, which empties it."""
    with emulated_aws() as account:
        yield account


@pytest.fixture
def aws(aws_account: Aws) -> Iterator[Aws]:
    with environment(**aws_account.environment):
        aws_account.reset()
        yield aws_account
        aws_account.reset()


@pytest.fixture
def batch_queue(aws: Aws) -> Callable[..., str]:
    """Return a maker of queues: `batch_queue("g5.xlarge", spot=True) -> name`."""
    return partial(make_queue, aws)


def make_queue(
    aws: Aws, *instance_types: str, spot: bool = False, max_vcpus: int = MAX_VCPUS, name: str | None = None
) -> str:
    types = list(instance_types) or ["c5.2xlarge"]
    name = name or f"{types[0].replace('.', '-')}{'-spot' if spot else ''}-{len(aws.queues)}"
    batch, network = aws.client("batch"), network_of(aws)
    environment_arn = batch.create_compute_environment(
        computeEnvironmentName=name,
        type="MANAGED",
        state="ENABLED",
        computeResources={
            "type": "SPOT" if spot else "EC2",
            "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED" if spot else "BEST_FIT_PROGRESSIVE",
            "minvCpus": 0,
            "maxvCpus": max_vcpus,
            "instanceTypes": types,
            **network,
        },
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": environment_arn}]
    batch.create_job_queue(jobQueueName=name, state="ENABLED", priority=1, computeEnvironmentOrder=order)
    aws.queues[name] = environment_arn
    return name


def network_of(aws: Aws) -> dict[str, Any]:
    ec2, iam, name = aws.client("ec2"), aws.client("iam"), "gridbench-instances"
    if not aws.queues:
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")
        ec2.create_security_group(GroupName=name, Description="out only", VpcId=vpc)
        iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    group = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": [name]}])[
        "SecurityGroups"
    ][0]
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [group["VpcId"]]}])["Subnets"]
    return {
        "subnets": [subnet["SubnetId"] for subnet in subnets],
        "securityGroupIds": [group["GroupId"]],
        "instanceRole": iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Arn"],
    }


@pytest.fixture
def bench(aws: Aws, batch_queue: Callable[..., str], base_image: str) -> Any:
    from tests.emulators.bench import Bench

    return Bench(aws, batch_queue("c5.2xlarge"), base_image)


@pytest.fixture(scope="session")
def bench_image(base_image: str) -> str:
    """The image of flavour cpu, built from this checkout on `base_image` and cached by its content."""
    from tests.emulators.images import built

    return built(base_image)
