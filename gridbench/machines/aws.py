"""gridbench up aws, status aws, down aws: a stack on AWS Batch, from nothing and back to nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridbench.machines import aws_text
from gridbench.terminal import confirm, say
from tasks.errors import GridbenchError

if TYPE_CHECKING:  # imported when a command runs: boto3 is slow to import
    from infra.aws.account import Account
    from infra.aws.plan import StackPlan
    from infra.aws.settings import StackOptions
    from infra.aws.stack import ChangeSet, Event, Stack

Project = Annotated[
    str, typer.Option(help="Begins every name, and tags everything; a second stack needs another one")
]
Region = Annotated[str | None, typer.Option(help="Such as us-east-1; that of your AWS profile by default")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking")]


@contextmanager
def _plainly() -> Iterator[None]:
    """What AWS refuses is a sentence, like every other mistake."""
    from infra.aws.errors import AwsError, in_words

    try:
        with in_words():
            yield
    except AwsError as error:
        raise GridbenchError(str(error)) from None


Instances = Annotated[
    str | None, typer.Option(help="Instance types with commas between, each with queues of its own")
]
MaxGpu = Annotated[
    int | None, typer.Option(help="Running at once in each GPU queue, the limit on spending; 32 at first")
]
MaxCpu = Annotated[int | None, typer.Option(help="In each CPU queue; 16 at first")]
Port = Annotated[int | None, typer.Option(help="Port of the Prefect API, opened outwards; 443 at first")]
Secret = Annotated[str | None, typer.Option(help="ARN of the secret with the Prefect API key")]
AuthSecret = Annotated[
    str | None, typer.Option(help="ARN of the secret with the auth string of a Prefect server of your own")
]
Email = Annotated[str | None, typer.Option(help="Who is told when the budget is used up")]
BudgetUsd = Annotated[int | None, typer.Option(help="A month, of the whole account; 50 at first")]
LogDays = Annotated[int | None, typer.Option(help="How long logs are kept; 30 at first")]
Image = Annotated[str | None, typer.Option(help="Image of the jobs; by default the newest pushed")]
PoolName = Annotated[str, typer.Option(help="Name of the Prefect work pool")]
PoolFile = Annotated[Path, typer.Option(help="Where the pool's base job template is written")]


def up_aws(
    project: Project = "gridbench",
    region: Region = None,
    instances: Instances = None,
    max_gpu_vcpus: MaxGpu = None,
    max_cpu_vcpus: MaxCpu = None,
    prefect_port: Port = None,
    secret: Secret = None,
    auth_secret: AuthSecret = None,
    email: Email = None,
    budget_usd: BudgetUsd = None,
    log_days: LogDays = None,
    image: Image = None,
    pool: PoolName = "aws-batch",
    pool_file: PoolFile = Path("aws-pool.json"),
    yes: Yes = False,
) -> None:
    """Make or change the AWS stack: shows what would change and what it costs, asks, waits, prints the pool.

    What is not named stays as the stack has it.
    """
    with _plainly():
        from infra.aws.settings import StackOptions

        names = None if instances is None else tuple(filter(None, map(str.strip, instances.split(","))))
        caps = (max_gpu_vcpus, max_cpu_vcpus)
        secrets = (secret, auth_secret)
        wishes = StackOptions(project, names, *caps, prefect_port, *secrets, email, budget_usd, log_days)
        account, plan, stack = _up(wishes, region, yes)
        _tell_pool(account, plan, stack, image, pool, pool_file)


def _up(wishes: "StackOptions", region: str | None, yes: bool) -> "tuple[Account, StackPlan, Stack]":
    """Check, plan, show, ask, make; the stack as it is then."""
    from infra.aws import stack as stacks
    from infra.aws.account import connect, region_of
    from infra.aws.plan import make_plan
    from infra.aws.settings import TEMPLATE, check
    from infra.aws.teardown import start_queues

    place = region_of(region)
    check(wishes, place)
    account = connect(place)
    plan = make_plan(account, wishes)
    say(f"account {account.number}, region {place}: working out what would change")
    body, project = TEMPLATE.read_text(), plan.project
    cfn = account.client("cloudformation")
    change_set = stacks.prepare(cfn, project, body, plan.parameters, project, plan.creates)
    if change_set.changes:
        stack = _carry_out(account, plan, change_set, yes)
    elif plan.creates or plan.stack is None:
        raise GridbenchError("the change set for a new stack is empty: nothing was made")
    else:
        say(f"stack {project} is that already: nothing to change")
        stack = plan.stack
    start_queues(account.client("batch"), project, say)
    return account, plan, stack


def _carry_out(account: "Account", plan: "StackPlan", change_set: "ChangeSet", yes: bool) -> "Stack":
    """Show a change set, ask, execute it and wait."""
    from infra.aws import stack as stacks

    cfn = account.client("cloudformation")
    try:
        aws_text.show_changes(change_set.changes, plan.project)
        aws_text.show_costs(plan.machines, plan.parameters, account.region)
        for note in plan.notes:
            say(f"Note: {note}.")
        confirm(f"{'Make' if plan.creates else 'Change'} stack {plan.project}?", yes)
    except BaseException:
        stacks.discard(cfn, change_set)
        raise
    try:
        return stacks.execute(cfn, change_set, _tell_event)
    except KeyboardInterrupt:
        say("AWS goes on with the stack; `gridbench status aws` shows it, `gridbench up aws` may be repeated")
        raise


def _tell_event(event: "Event") -> None:
    """A line for each thing that is done or has failed; what has only begun is not told."""
    if not event["ResourceStatus"].endswith("_IN_PROGRESS"):
        reason = f": {event['ResourceStatusReason']}" if event.get("ResourceStatusReason") else ""
        say(f"  {event['ResourceStatus']} {event['LogicalResourceId']}{reason}")


def _tell_pool(
    account: "Account", plan: "StackPlan", stack: "Stack", image: str | None, pool: str, pool_file: Path
) -> None:
    """Print what the stack has and what the pool needs, and write the pool's template."""
    from infra.aws import pool as pools
    from infra.workers.batch.worker import AwsBatchWorker

    for name, value in sorted(stack.outputs.items()):
        if "Queue" not in name:  # they have their own lines below
            say(f"{name}: {value}")
    image = image or pools.newest_image(account.client("ecr"), stack.outputs["RepositoryUri"])
    variables = pools.pool_variables(stack, plan.machines, image)
    filled = pools.filled_template(AwsBatchWorker.get_default_base_job_template(), variables)
    try:
        pool_file.write_text(json.dumps(filled, indent=2) + "\n")
    except OSError as error:
        raise GridbenchError(f"--pool-file {pool_file} can't be written ({error.strerror})") from None
    say(f"\nJob variables of the pool:\n{json.dumps(variables, indent=2)}")
    say("\nJob variables of each queue, for files in deployments/hardware:")
    for machine in plan.machines:
        for spot in (False, True):
            say(f"  {json.dumps(pools.queue_variables(plan.project, machine, spot))}")
    if not image:
        say(f"\nNo image yet: push one to {stack.outputs['RepositoryUri']}, then this command again.")
    say(f"\nThe work pool:\n  {pools.pool_command(pool, pool_file)}")
    say("\nThe same with the AWS CLI:")
    lines = pools.up_lines(account.region, plan.project, plan.parameters, plan.creates)
    for line in lines + pools.use_lines(stack, variables):
        say(f"  {line}")


def status_aws(project: Project = "gridbench", region: Region = None) -> None:
    """Show the AWS stack: queues, jobs, machines, what they cost now; or what is left without a stack."""
    with _plainly():
        from infra.aws.account import connect, region_of
        from infra.aws.leftovers import buckets
        from infra.aws.settings import check_project
        from infra.aws.stack import first_reason, read_ours
        from infra.aws.state import read_instances, read_queues

        check_project(project)
        account = connect(region_of(region))
        cfn = account.client("cloudformation")
        stack = read_ours(cfn, project)
        if stack is None:
            raise typer.Exit(_tell_left(account, project, "no stack"))
        why = first_reason(cfn, stack.id) if "ROLLBACK" in stack.status or "FAILED" in stack.status else ""
        say(f"stack {project} in {account.region}: {stack.status}{f' ({why})' if why else ''}")
        aws_text.show_queues(read_queues(account.client, project))
        aws_text.show_instances(read_instances(account.client("ec2"), project), account.region)
        for name, output in (("images", "RepositoryUri"), ("logs", "LogGroupName")):
            if output in stack.outputs:
                say(f"{name}: {stack.outputs[output]}")
        for bucket in buckets(account, project):
            say(f"results: s3://{bucket}")
    raise typer.Exit(0 if stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE") else 1)


def _tell_left(account: "Account", project: str, head: str) -> int:
    """Say what services still have of the project; returns the exit code: 1 where something is left."""
    from infra.aws.leftovers import buckets, look

    left = look(account, project)
    for sentence in left.unseen:
        say(f"not checked: {sentence}")
    for bucket in buckets(account, project):
        say(f"kept: results in s3://{bucket}; `gridbench down aws --delete-results` deletes them")
    if not left.by_kind:
        say(f"{head}; nothing of {project} is left in {account.region}")
        return 0
    say(f"{head}, but this is left in {account.region}; `gridbench down aws` may be repeated:")
    for line in left.lines:
        say(f"  {line}")
    return 1


def down_aws(
    project: Project = "gridbench",
    region: Region = None,
    delete_results: Annotated[
        bool, typer.Option("--delete-results", help="Delete the bucket with the results, every version")
    ] = False,
    yes: Yes = False,
) -> None:
    """Take the AWS stack down to nothing, and check with every service that nothing is left.

    Results stay unless --delete-results is given. May be repeated, also after Ctrl-C.
    """
    with _plainly():
        from infra.aws.account import connect, region_of
        from infra.aws.leftovers import buckets
        from infra.aws.settings import check_project
        from infra.aws.teardown import delete_bucket, objects_in, take_down

        check_project(project)
        account = connect(region_of(region))
        s3 = account.client("s3")
        results = {bucket: objects_in(s3, bucket) for bucket in buckets(account, project)}
        _tell_end(account, project, results, delete_results)
        if not yes and delete_results and any(results.values()):
            _confirm_in_full(next(bucket for bucket, count in results.items() if count))
        else:
            confirm(f"Delete all of {project}?", yes)
        take_down(account, project, say)
        for bucket, count in results.items():
            if delete_results or not count:
                delete_bucket(s3, bucket, say)
        code = _tell_left(account, project, "down")
    raise typer.Exit(code)


def _tell_end(account: "Account", project: str, results: dict[str, int], delete_results: bool) -> None:
    """What will be deleted, and what will be kept."""
    from infra.aws.leftovers import look

    left: Any = look(account, project)
    say(f"account {account.number}, region {account.region}: this will be deleted")
    for line in left.lines or ["  nothing: there is none of it"]:
        say(f"  {line}")
    for bucket, count in results.items():
        fate = "DELETED" if delete_results or not count else "kept"
        say(f"  bucket {bucket} with {count} objects of results: {fate}")


def _confirm_in_full(bucket: str) -> None:
    """Results are gone for good: their bucket's name has to be typed."""
    try:
        typed = typer.prompt(f"Type {bucket} to delete the results as well")
    except typer.Abort:
        typed = ""
    if typed.strip() != bucket:
        raise GridbenchError(f"{bucket} was not typed, nothing was deleted")
