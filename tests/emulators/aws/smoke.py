"""Ask AWS Batch how jobs end, to compare the emulator of the tests with it.

    python -m tests.emulators.aws.smoke --queue gridbench-c5-2xlarge --usd-per-hour 0.34 --yes

Runs small jobs on one queue of the stack, writes AWS's answers as JSON, and prints differences from the
emulator. It stops at a limit of minutes and USD, and always ends its jobs.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from infra.aws.account import Account, connect, region_of
from infra.aws.errors import AwsError, in_words
from infra.aws.stack import read_ours
from infra.aws.state import LIVE
from tests.emulators.aws.smoke_beliefs import differences
from tests.emulators.aws.smoke_cases import PREFIX, Case, cases, definition
from tests.emulators.smoke_command import exit_code, tell, undisturbed

POLL_S = 5.0
IMAGE = "public.ecr.aws/docker/library/python:3.11-slim"
STOPPED = "smoke test over"
Outputs = Mapping[str, str]  # of the stack


@dataclass
class Job:
    """A submitted job and its observed states.

    Attributes:
        seen: each state once with its reason and seconds since submission.
        last: the newest answer of DescribeJobs.
    """

    case: Case
    id: str
    submitted: float
    seen: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    told_to_end: bool = False

    @property
    def over(self) -> bool:
        stuck = self.case.stuck and self.last.get("statusReason") and self.last["status"] in LIVE
        return bool(stuck) or self.last.get("status") in ("SUCCEEDED", "FAILED")

    def look(self, row: dict[str, Any]) -> None:
        now = {"state": row["status"], "reason": row.get("statusReason")}
        if not self.seen or {key: self.seen[-1][key] for key in now} != now:
            self.seen.append(now | {"after_s": round(time.monotonic() - self.submitted, 1)})
        self.last = row

    @property
    def record(self) -> dict[str, Any]:
        attempts = [
            {
                "status_reason": attempt.get("statusReason"),
                "reason": attempt.get("container", {}).get("reason"),
                "exit_code": attempt.get("container", {}).get("exitCode"),
            }
            for attempt in self.last.get("attempts", [])
        ]
        container = self.last.get("container", {})
        return {
            "status": self.last.get("status"),
            "status_reason": self.last.get("statusReason"),
            "reason": container.get("reason"),
            "exit_code": container.get("exitCode"),
            "states": self.seen,
            "attempts": attempts,
        }


class LimitReached(Exception):
    pass


@dataclass
class Meter:
    """Limits of minutes and USD, and their use. Money is counted by the machines that Batch wants to run."""

    account: Account
    environments: Sequence[str]
    usd_per_hour: float
    max_minutes: float
    max_usd: float
    vcpus: int
    began: float = field(default_factory=time.monotonic)
    usd: float = 0.0
    counted: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Count the time since the last look; raise LimitReached at a limit."""
        found = self.account.client("batch").describe_compute_environments(
            computeEnvironments=list(self.environments)
        )["computeEnvironments"]
        wanted = sum(int(row["computeResources"].get("desiredvCpus") or 0) for row in found)
        now = time.monotonic()
        machines = max(1, -(-wanted // self.vcpus))  # one, even before AWS reports it
        self.usd += machines * self.usd_per_hour * (now - self.counted) / 3600
        self.counted = now
        if now - self.began > self.max_minutes * 60:
            raise LimitReached(f"{self.max_minutes:g} minutes are over")
        if self.usd > self.max_usd:
            raise LimitReached(f"{self.max_usd:g} USD are spent, by estimate")


def observe(
    account: Account, queue: str, wanted: Sequence[Case], made: list[Job], meter: Meter, outputs: Outputs
) -> None:
    """Submit the cases and follow them, those that block the queue last."""
    for group in ([case for case in wanted if not case.stuck], [case for case in wanted if case.stuck]):
        jobs = [_submit(account, queue, case, outputs) for case in group]
        made += jobs
        _follow(account, jobs, meter)


def _submit(account: Account, queue: str, case: Case, outputs: Outputs) -> Job:
    batch = account.client("batch")
    arn = batch.register_job_definition(**definition(case, queue, outputs))["jobDefinitionArn"]
    answer = batch.submit_job(
        jobName=f"{PREFIX}-{queue}-{case.name}"[:128],
        jobQueue=queue,
        jobDefinition=arn,
        timeout={"attemptDurationSeconds": case.timeout_s},
        containerOverrides={"environment": [{"name": "PLAN", "value": case.plan}]} if case.plan else {},
    )
    tell(f"{case.name}: {answer['jobId']}")
    return Job(case, answer["jobId"], time.monotonic())


def _follow(account: Account, jobs: Sequence[Job], meter: Meter) -> None:
    batch = account.client("batch")
    while left := [job for job in jobs if not job.over]:
        rows = {row["jobId"]: row for row in batch.describe_jobs(jobs=[job.id for job in left])["jobs"]}
        for job in left:
            if job.id in rows:  # DescribeJobs can miss a new job for a moment
                before = len(job.seen)
                job.look(rows[job.id])
                for state in job.seen[before:]:
                    tell(f"{job.case.name}: {state['state']} {state['reason'] or ''}")
                if job.case.terminate == job.last["status"] and not job.told_to_end:
                    batch.terminate_job(jobId=job.id, reason=job.case.words)
                    job.told_to_end = True
        meter.check()
        time.sleep(POLL_S)


def clean_up(account: Account, queue: str, jobs: Sequence[Job]) -> None:
    """End every job of this run, also one whose answer was lost, and deregister the definitions."""
    batch = account.client("batch")
    for job in jobs:
        if job.last.get("status") not in ("SUCCEEDED", "FAILED"):
            batch.terminate_job(jobId=job.id, reason=STOPPED)
    prefix = f"{PREFIX}-{queue}-"
    for state in LIVE:
        for row in batch.list_jobs(jobQueue=queue, jobStatus=state)["jobSummaryList"]:
            if row["jobName"].startswith(prefix):
                batch.terminate_job(jobId=row["jobId"], reason=STOPPED)
    pages = batch.get_paginator("describe_job_definitions").paginate(status="ACTIVE")
    for row in [row for page in pages for row in page["jobDefinitions"]]:
        if row["jobDefinitionName"].startswith(prefix):
            batch.deregister_job_definition(jobDefinition=row["jobDefinitionArn"])


def machine_of(account: Account, queue: str) -> tuple[str, int, list[str]]:
    """Return the queue's instance type, its vCPUs and its compute environments.

    Raises:
        AwsError: there is no such queue, or the stack is not ours.
    """
    batch = account.client("batch")
    found = batch.describe_job_queues(jobQueues=[queue])["jobQueues"]
    if not found:
        raise AwsError(f"there is no queue {queue!r} in {account.region}: `gridbench status aws` lists them")
    arns = [order["computeEnvironment"] for order in found[0]["computeEnvironmentOrder"]]
    rows = batch.describe_compute_environments(computeEnvironments=arns)["computeEnvironments"]
    types = [name for row in rows for name in row["computeResources"]["instanceTypes"]]
    if len(types) != 1:
        raise AwsError(f"queue {queue!r} has {len(types)} instance types: one of Gridbench's stack has one")
    shape = account.client("ec2").describe_instance_types(InstanceTypes=types)["InstanceTypes"][0]
    return types[0], int(shape["VCpuInfo"]["DefaultVCpus"]), arns


def as_worker(account: Account, policy_arn: str) -> Account:
    """Return the account with only the worker policy's rights, for an hour; needs an IAM user."""
    answer = account.client("sts").get_federation_token(
        Name="gridbench-smoke", PolicyArns=[{"arn": policy_arn}], DurationSeconds=3600
    )["Credentials"]
    session = boto3.session.Session(
        answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"], account.region
    )
    return Account(cache(lambda service: session.client(service)), account.region, account.number)


def run(arguments: argparse.Namespace) -> int:
    """Return the exit code: 0 as believed, 1 if something differs or was not seen."""
    account = connect(region_of(arguments.region))
    stack = read_ours(account.client("cloudformation"), arguments.project)
    if stack is None:
        raise AwsError(
            f"there is no stack {arguments.project!r} in {account.region}: `gridbench up aws` first"
        )
    instance, vcpus, environments = machine_of(account, arguments.queue)
    limits = (arguments.usd_per_hour, arguments.max_minutes, arguments.max_usd)
    if not arguments.yes:
        raise AwsError(
            f"this rents {instance} at {limits[0]:g} USD an hour, for at most {limits[1]:g} minutes and "
            f"{limits[2]:g} USD: say --yes to do it"
        )
    wanted, jobs, outputs = cases(arguments.image), [], stack.outputs
    worker = as_worker(account, outputs["WorkerPolicyArn"]) if arguments.as_worker else account
    meter = Meter(account, environments, *limits, vcpus=vcpus)
    stopped = None
    try:
        observe(worker, arguments.queue, wanted, jobs, meter, outputs)
    except LimitReached as error:
        stopped = str(error)
    finally:
        undisturbed(lambda: clean_up(account, arguments.queue, jobs))
        found = {job.case.name: job.record for job in jobs}
        head = {"queue": arguments.queue, "instance_type": instance, "region": account.region}
        head |= {"image": arguments.image, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        head |= {"minutes": round((time.monotonic() - meter.began) / 60, 1), "usd": round(meter.usd, 4)}
        arguments.out.write_text(json.dumps(head | {"stopped": stopped, "cases": found}, indent=2) + "\n")
        tell(f"{arguments.out} has what AWS said; about {meter.usd:.3f} USD")
    differ = differences(wanted, found)
    for sentence in ([f"stopped early: {stopped}"] if stopped else []) + differ:
        tell(sentence)
    return 1 if differ or stopped else 0


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m tests.emulators.aws.smoke", description=__doc__)
    options.add_argument("--queue", required=True, help="one of the stack's, a cheap CPU type")
    options.add_argument("--usd-per-hour", type=float, required=True, help="what its machine costs")
    options.add_argument("--project", default="gridbench")
    options.add_argument("--region")
    options.add_argument("--image", default=IMAGE, help="with python3")
    options.add_argument("--max-minutes", type=float, default=60)
    options.add_argument("--max-usd", type=float, default=1)
    options.add_argument("--out", type=Path, default=Path("smoke.json"))
    options.add_argument("--as-worker", action="store_true", help="submit with the worker's rights alone")
    options.add_argument("--yes", action="store_true", help="rent the machine")
    return options


def main(words: Sequence[str] | None = None) -> int:
    def in_sentences() -> int:
        with in_words():
            return run(parser().parse_args(words))

    return exit_code(in_sentences, AwsError)


if __name__ == "__main__":
    sys.exit(main())
