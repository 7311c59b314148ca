"""Ask CloudFormation about the template at no cost, by change sets that are never executed.

    python -m tests.emulators.aws.smoke_template --region us-east-1

One has the default instance types, one the most, which travels through a bucket. Change sets and their empty
stacks are always deleted.
"""

import argparse
import sys
from collections.abc import Sequence

from infra.aws import stack as stacks
from infra.aws.account import Account, connect, region_of
from infra.aws.delivery import delivered, find_buckets
from infra.aws.errors import AwsError, in_words
from infra.aws.plan import make_plan
from infra.aws.settings import INSTANCES, MOST_TYPES, StackOptions

PROJECT = "gridbench-smoke"
SIZES = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge")
MOST = (*tuple(f"{family}.{size}" for family in ("m5", "r5", "m5d") for size in SIZES), "c5.2xlarge")


def check(account: Account, instances: Sequence[str]) -> int:
    """Make, read and delete one change set; return the number of its changes.

    Raises:
        AwsError: CloudFormation refuses or has lost the template.
    """
    cfn = account.client("cloudformation")
    plan = make_plan(account, StackOptions(PROJECT, tuple(instances), max_cpu_vcpus=96))
    with delivered(account, PROJECT, plan.body) as template:
        change_set = stacks.prepare(cfn, template, plan.parameters, PROJECT, creates=True)
    try:
        if left := list(find_buckets(account, PROJECT)):
            raise AwsError(f"bucket {left[0]} is still there")
        cfn.get_template(StackName=change_set.stack_id, ChangeSetName=change_set.id)
    finally:
        stacks.discard(cfn, change_set)
    queues = [change for change in change_set.changes if change.kind == "AWS::Batch::JobQueue"]
    if len(queues) != 2 * len(instances):
        raise AwsError(
            f"{len(queues)} queues would be made of {len(instances)} types, not {2 * len(instances)}"
        )
    return len(change_set.changes)


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.emulators.aws.smoke_template", description=__doc__
    )
    options.add_argument("--region")
    arguments = options.parse_args(words)
    try:
        with in_words():
            account = connect(region_of(arguments.region))
            for instances in (INSTANCES, MOST[:MOST_TYPES]):
                count = check(account, instances)
                print(f"{len(instances)} types: CloudFormation would make {count} resources", flush=True)
    except AwsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
