"""The commands `up aws`, `status aws` and `down aws`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridbench.machines import aws_text
from gridbench.machines.cloud import Cloud, Images, Yes, show_lines, show_notes
from gridbench.terminal import confirm, say
from tasks.errors import GridbenchError

if TYPE_CHECKING:  # at run time boto3 is imported by the command: it is slow
    from infra.aws.account import Account
    from infra.aws.plan import StackPlan
    from infra.aws.settings import StackOptions
    from infra.aws.stack import ChangeSet, Event, Stack

Project = Annotated[
    str, typer.Option(help="Prefix of every name, and tag of everything; a second stack needs another one")
]
Region = Annotated[
    str | None,
    typer.Option(
        help="AWS region, such as us-east-1; by default that of the stack made from here, or of your profile"
    ),
]
Instances = Annotated[
    str | None, typer.Option(help="Instance types, separated by commas; each gets its own queues")
]
MaxGpu = Annotated[
    int | None,
    typer.Option(help="vCPUs that can run at once in each GPU queue, which limits spending; at first 32"),
]
MaxCpu = Annotated[int | None, typer.Option(help="The same for each CPU queue; at first 16")]
Port = Annotated[
    int | None, typer.Option(help="Port of the Prefect API, opened for outgoing traffic; at first 443")
]
Secret = Annotated[str | None, typer.Option(help="ARN of the secret with the Prefect API key")]
AuthSecret = Annotated[
    str | None, typer.Option(help="ARN of the secret with the auth string of a Prefect server of your own")
]
Email = Annotated[str | None, typer.Option(help="Address for mails about the budget")]
BudgetUsd = Annotated[
    int | None, typer.Option(help="Monthly budget of the whole account, for mails; at first 50")
]
LogDays = Annotated[int | None, typer.Option(help="Days that logs are kept; at first 30")]
StackOnly = Annotated[
    bool, typer.Option("--stack-only", help="Only the stack; print how the rest is made by hand")
]
PoolName = Annotated[str, typer.Option(help="With --stack-only: name of the Prefect work pool")]
PoolFile = Annotated[
    Path, typer.Option(help="With --stack-only: file to write the base job template of the pool to")
]

AWS = Cloud("aws", "AWS")


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
    image: Images = None,
    stack_only: StackOnly = False,
    pool: PoolName = "aws-batch",
    pool_file: PoolFile = Path("aws-pool.json"),
    yes: Yes = False,
) -> None:
    """Make AWS ready for runs: the stack, images, and the objects on the Prefect API.

    It shows changes and costs, and asks. Options that are not given keep their values in the stack.
    """
    from infra.aws.errors import in_words
    from infra.aws.settings import StackOptions

    with in_words():
        names = None if instances is None else tuple(filter(None, map(str.strip, instances.split(","))))
        caps = (max_gpu_vcpus, max_cpu_vcpus)
        secrets = (secret, auth_secret)
        options = StackOptions(project, names, *caps, prefect_port, *secrets, email, budget_usd, log_days)
        if stack_only:
            _show_pool(*_up(options, region, yes), image, pool, pool_file)
            return
        from gridbench.setup.aws import make_ready

        make_ready(AWS, options, region, image or (), _up, yes)


def _up(options: "StackOptions", region: str | None, yes: bool) -> "tuple[Account, StackPlan, Stack]":
    from gridbench.setup.aws import noted_region
    from infra.aws import stack as stacks
    from infra.aws.account import connect, region_of
    from infra.aws.delivery import delivered
    from infra.aws.plan import make_plan
    from infra.aws.settings import check
    from infra.aws.teardown import start_queues

    region = region_of(region or noted_region(options.project))
    check(options, region)
    account = connect(region)
    plan = make_plan(account, options)
    say(f"account {account.number}, region {region}: working out the changes")
    cfn, project = account.client("cloudformation"), plan.project
    with delivered(account, project, plan.body) as template:
        change_set = stacks.prepare(cfn, template, plan.parameters, project, plan.creates)
    if change_set.changes:
        stack = _carry_out(account, plan, change_set, yes)
    elif plan.creates or plan.stack is None:
        raise GridbenchError("the change set of a new stack is empty: nothing was created")
    else:
        say(f"stack {project} is up to date: nothing to change")
        stack = plan.stack
    start_queues(account.client("batch"), project, say)
    return account, plan, stack


def _carry_out(account: "Account", plan: "StackPlan", change_set: "ChangeSet", yes: bool) -> "Stack":
    from infra.aws import stack as stacks
    from infra.aws.first_use import prepare

    cfn = account.client("cloudformation")
    try:
        aws_text.show_changes(change_set.changes, plan.project)
        aws_text.show_costs(plan.machines, plan.parameters, account.region)
        show_notes(plan.notes)
        confirm(f"{'Create' if plan.creates else 'Change'} stack {plan.project}?", yes)
        prepare(account)
    except BaseException:
        stacks.discard(cfn, change_set)
        raise
    with AWS.interruptible("up"):
        return stacks.execute(cfn, change_set, _show_event)


def _show_event(event: "Event") -> None:
    if not event["ResourceStatus"].endswith("_IN_PROGRESS"):
        reason = f": {event['ResourceStatusReason']}" if event.get("ResourceStatusReason") else ""
        say(f"  {event['ResourceStatus']} {event['LogicalResourceId']}{reason}")


def _show_pool(
    account: "Account",
    plan: "StackPlan",
    stack: "Stack",
    images: list[str] | None,
    pool: str,
    pool_file: Path,
) -> None:
    from gridbench.setup.image import published_images
    from infra.aws import pool as pools
    from infra.workers.batch.worker import AwsBatchWorker

    for name, value in sorted(stack.outputs.items()):
        say(f"{name}: {value}")
    published = published_images(images or ())
    image = next(iter(published.values()), None) or pools.newest_image(
        account.client("ecr"), stack.outputs["RepositoryUri"]
    )
    variables = pools.pool_variables(stack, plan.machines, image)
    filled = pools.filled_template(AwsBatchWorker.get_default_base_job_template(), variables)
    template_file = pool_file.with_name("aws-template.json")
    try:
        pool_file.write_text(json.dumps(filled, indent=2) + "\n")
        template_file.write_text(plan.body)
    except OSError as error:
        raise GridbenchError(f"--pool-file {pool_file} can't be written ({error.strerror})") from None
    say(f"\nJob variables of the pool:\n{json.dumps(variables, indent=2)}")
    say("\nJob variables of each queue, for files in deployments/hardware:")
    for machine in plan.machines:
        for spot in (False, True):
            say(f"  {json.dumps(pools.queue_variables(plan.project, machine, spot))}")
    if not image:
        say(f"\nNo image yet: push one to {stack.outputs['RepositoryUri']}, then repeat this command.")
    say(f"\nThe work pool:\n  {pools.pool_command(pool, pool_file)}")
    say(f"\nThe same with the AWS CLI, with the template in {template_file}:")
    lines = pools.up_lines(account, plan.parameters, plan.creates, template_file)
    show_lines(lines + pools.use_lines(stack, variables))


def status_aws(project: Project = "gridbench", region: Region = None) -> None:
    """Show the AWS stack: queues, jobs, machines and their cost now; without a stack, its leftovers."""
    from gridbench.setup.aws import noted_region
    from infra.aws.errors import in_words

    with in_words():
        from infra.aws.account import connect, region_of
        from infra.aws.leftovers import buckets
        from infra.aws.settings import check_project
        from infra.aws.stack import first_reason, read_ours
        from infra.aws.state import read_instances, read_queues

        check_project(project)
        account = connect(region_of(region or noted_region(project)))
        cfn = account.client("cloudformation")
        stack = read_ours(cfn, project)
        if stack is None:
            raise typer.Exit(_show_left(account, project, "no stack"))
        reason = first_reason(cfn, stack.id) if "ROLLBACK" in stack.status or "FAILED" in stack.status else ""
        say(f"stack {project} in {account.region}: {stack.status}{f' ({reason})' if reason else ''}")
        aws_text.show_queues(read_queues(account.client, project))
        aws_text.show_instances(read_instances(account.client("ec2"), project), account.region)
        for name, output in (("images", "RepositoryUri"), ("logs", "LogGroupName")):
            if output in stack.outputs:
                say(f"{name}: {stack.outputs[output]}")
        for bucket in buckets(account, project):
            say(f"results: s3://{bucket}")
    raise typer.Exit(0 if stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE") else 1)


def _show_left(account: "Account", project: str, outcome: str) -> int:
    from infra.aws.leftovers import buckets, look

    left = look(account, project)
    for bucket in buckets(account, project):
        say(f"kept: results in s3://{bucket}; `gridbench down aws --delete-results` deletes them")
    return AWS.show_left(outcome, project, account.region, left.lines, left.unseen)


def down_aws(
    project: Project = "gridbench",
    region: Region = None,
    delete_results: Annotated[
        bool, typer.Option("--delete-results", help="Delete the bucket with the results too, every version")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete the AWS stack, and check with every service that nothing is left.

    Results are kept unless --delete-results is given. You can run the command again, also after Ctrl-C.
    """
    from gridbench.setup.aws import noted_region, place_of
    from gridbench.setup.steps import end
    from infra.aws.errors import in_words

    with in_words():
        from infra.aws.account import connect, region_of
        from infra.aws.leftovers import buckets
        from infra.aws.settings import check_project
        from infra.aws.teardown import delete_bucket, objects_in, take_down

        check_project(project)
        account = connect(region_of(region or noted_region(project)))
        s3 = account.client("s3")
        results = {bucket: objects_in(s3, bucket) for bucket in buckets(account, project)}
        _show_doomed(account, project, results, delete_results)
        bucket = next((bucket for bucket, count in results.items() if count), "")
        if bucket and delete_results and not yes:
            try:
                typed = typer.prompt(f"Type {bucket} to delete the results as well")
            except typer.Abort:
                typed = ""
            if typed.strip() != bucket:
                raise GridbenchError(f"{bucket} was not typed, nothing was deleted")
        else:
            confirm(f"Delete all of {project}?", yes)
        with AWS.interruptible("down"):
            take_down(account, project, say)
        for bucket, count in results.items():
            if delete_results or not count:
                delete_bucket(s3, bucket, say)
        code = _show_left(account, project, "down")
    raise typer.Exit(max(code, end(AWS, project, place_of(account))))


def _show_doomed(account: "Account", project: str, results: dict[str, int], delete_results: bool) -> None:
    from infra.aws.leftovers import look

    say(f"account {account.number}, region {account.region}: this will be deleted")
    show_lines(look(account, project).lines or ["nothing: there is nothing of this project"])
    for bucket, count in results.items():
        fate = "DELETED" if delete_results or not count else "kept"
        say(f"  bucket {bucket} with {count} objects of results: {fate}")
