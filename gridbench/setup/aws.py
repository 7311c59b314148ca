"""Preparation of AWS for runs."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import boto3

from gridbench.machines.cloud import Cloud
from gridbench.setup import image, steps
from gridbench.setup.note import CloudNote, read_note
from gridbench.setup.prefect_api import PrefectApi
from gridbench.terminal import say
from infra.aws.account import CONFIG, Account, connect, region_of
from infra.aws.errors import in_words
from infra.aws.plan import StackPlan, make_plan
from infra.aws.pool import filled_template, pool_variables, usual_machine
from infra.aws.quotas import shortage
from infra.aws.secrets import API_KEY, AUTH_STRING, USD_PER_MONTH, drop_secret, keep_secret
from infra.aws.settings import StackOptions, check, queue_name
from infra.aws.stack import Stack, read_ours, read_stack
from infra.workers.batch.worker import AwsBatchWorker
from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS, Hardware, hardware_names, load_hardware

UpStack = Callable[[StackOptions, str | None, bool], tuple[Account, StackPlan, Stack]]
REGION = "AWS_DEFAULT_REGION"
OF_WORKER = ("AWS_PROFILE",)  # by which `up` found the account, for the worker of later runs
POOL = "aws-batch"  # of the hardware files, and the type of its worker


def make_ready(
    cloud: Cloud,
    options: StackOptions,
    region: str | None,
    images: Sequence[str],
    up_stack: UpStack,
    yes: bool,
) -> None:
    """Create the missing parts for runs on AWS; it can be repeated.

    `region` is by default that of the stack made from here, or of the AWS profile. `up_stack` asks first.
    """
    published = image.published_images(images)
    region = region_of(region or noted_region(options.project))
    check(options, region)
    api, note = steps.begin(cloud, options.project, POOL, POOL)
    account = connect(region)
    steps.settle(cloud, note, place_of(account))
    stack = read_ours(account.client("cloudformation"), options.project)
    image.forget_elsewhere(note, stack.outputs.get("RepositoryUri", "") if stack else "")
    names = image.flavours_for([machine.gpus for machine in make_plan(account, options).machines])
    options = replace(options, prefect_port=options.prefect_port or port_of(api.url))
    secrets = _wanted(stack, api, options)
    image_step = steps.image_step(names, published, note, "its repository")
    stack_step = f"stack {options.project}: 0 USD an hour while nothing runs; you are asked before it is made"
    secret_steps = [f"secret {options.project}-{kind}: {USD_PER_MONTH:.2f} USD a month" for kind in secrets]
    steps.show_steps(cloud, api, note, [*secret_steps, stack_step, image_step])
    note.environment = {name: os.environ[name] for name in OF_WORKER if name in os.environ}
    note.environment[REGION] = region
    with _noted(note, account), _with_secrets(account, secrets, options) as complete:
        account, plan, stack = up_stack(complete, region, yes)
    with steps.told_on_stop(cloud, lambda: f"stack {plan.project} is there, at 0 USD an hour"):
        image.ensure_pushed(names, stack.outputs["RepositoryUri"], published, note, say)
        usual_image = note.images["cuda13" if usual_machine(plan.machines).gpus else "cpu"]
        variables = pool_variables(stack, plan.machines, usual_image)
        template = filled_template(AwsBatchWorker.get_default_base_job_template(), variables)
        steps.finish(api, note, template)
    say(f"\nready{_next_command(options.project, [machine.name for machine in plan.machines])}")


def _next_command(project: str, instances: Sequence[str]) -> str:
    pairs = [(f"aws-{instance}", queue_name(project, instance)) for instance in instances]
    files = {name: load_hardware(name) for name in hardware_names(DEPLOYMENTS) if name in dict(pairs)}
    names = [
        name for name, queue in pairs if name in files and files[name].job_variables.get("job_queue") == queue
    ]
    if names:
        return f": gridbench run quick {' '.join(f'--on {name}' for name in names[:2])}"
    return (
        ", but no file of deployments/hardware names one of these queues: copy aws-c5.2xlarge.yaml, with "
        f"what `gridbench up aws --stack-only --project {project}` prints of each queue"
    )


def check_quotas(note: CloudNote, hardware: Sequence[Hardware]) -> None:
    """Raise `GridbenchError` for a machine above the account's quota: its lane would wait for ever."""
    profile = os.environ.get("AWS_PROFILE") or note.environment.get("AWS_PROFILE")
    with in_words():
        session = boto3.Session(profile_name=profile, region_name=note.environment.get(REGION))
        quotas = session.client("service-quotas", config=CONFIG)
    for machine in hardware:
        variables = machine.job_variables
        if machine.pool != note.pool or not machine.instance_type or "vcpus" not in variables:
            continue
        spot = str(variables.get("job_queue", "")).endswith("-spot")
        if sentence := shortage(quotas, machine.instance_type, variables["vcpus"], spot):
            raise GridbenchError(f"{machine.name} can't be measured: {sentence}")


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (80 if parts.scheme == "http" else 443)


def noted_region(project: str) -> str | None:
    note = read_note("aws")
    return note.environment.get(REGION) if note and note.project == project else None


@contextmanager
def _noted(note: CloudNote, account: Account) -> Iterator[None]:
    """Write the note for `status` and `down`; delete a new one if no stack is made."""
    is_new = read_note(note.cloud) is None
    note.write()
    try:
        yield
    except BaseException:
        if is_new and not _is_there(read_stack(account.client("cloudformation"), note.project)):
            note.remove()
        raise


def place_of(account: Account) -> str:
    return f"region {account.region} of account {account.number}"


def _wanted(stack: Stack | None, api: PrefectApi, options: StackOptions) -> dict[str, str]:
    given = stack.parameters if stack else {}
    keeps = (
        (API_KEY, api.key, options.secret_arn, given.get("PrefectApiKeySecretArn", "")),
        (AUTH_STRING, api.auth_string, options.auth_secret_arn, given.get("PrefectAuthStringSecretArn", "")),
    )
    return {
        kind: value
        for kind, value, option, present in keeps
        if value and option is None and (not present or f":secret:{options.project}-{kind}-" in present)
    }


@contextmanager
def _with_secrets(
    account: Account, secrets: Mapping[str, str], options: StackOptions
) -> Iterator[StackOptions]:
    """Yield the options with secrets' ARNs; delete new secrets if no stack uses them."""
    arns: dict[str, str] = {}
    made: list[str] = []
    try:
        for kind, value in secrets.items():
            arn, new = keep_secret(account, options.project, kind, value)
            arns[kind] = arn
            made += [arn] if new else []
        yield replace(
            options,
            secret_arn=arns.get(API_KEY, options.secret_arn),
            auth_secret_arn=arns.get(AUTH_STRING, options.auth_secret_arn),
        )
    except BaseException:
        stack = read_stack(account.client("cloudformation"), options.project) if made else None
        for arn in made:
            used = stack and (stack.status.endswith("_IN_PROGRESS") or arn in stack.parameters.values())
            if not (used and _is_there(stack)):
                drop_secret(account, arn)
        raise


def _is_there(stack: Stack | None) -> bool:
    """Return False for a stack in review or deletion."""
    return stack is not None and not stack.status.startswith(("REVIEW_", "DELETE_"))
