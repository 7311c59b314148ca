import math

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from infra.workers.batch.poller import PATIENT_POLLS, SLOWDOWN, Poller

FAST_S, SLOW_S = 5.0, 30.0


class Cloud:
    def __init__(self, status="RUNNING"):
        self.now, self.status, self.calls, self.fails, self.unknown = 0.0, status, [], [], set()

    async def describe(self, ids):
        self.calls.append(ids)
        if self.fails:
            raise self.fails.pop(0)
        return [{"jobId": job_id, "status": self.status} for job_id in ids if job_id not in self.unknown]

    async def rounds(self, poller, for_s):
        end = self.now + for_s
        while self.now < end:
            await poller.round()
            self.now += poller.pause_s


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def poller(cloud, warnings):
    return Poller(cloud.describe, FAST_S, SLOW_S, clock=lambda: cloud.now, warn=warnings.append)


def error(code, status=400):
    answer = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "DescribeJobs")


@pytest.mark.parametrize("jobs", [1, 100, 101, 1000])
async def test_a_round_takes_a_call_per_hundred_jobs(poller, cloud, jobs):
    for n in range(jobs):
        poller.watch(f"job-{n}")
    await poller.round()
    assert len(cloud.calls) == math.ceil(jobs / 100)
    assert sorted(job for call in cloud.calls for job in call) == sorted(f"job-{n}" for n in range(jobs))


async def test_nothing_to_watch_needs_no_call(poller, cloud):
    await cloud.rounds(poller, 60)
    assert cloud.calls == []


async def test_a_call_takes_along_jobs_that_are_not_due(poller, cloud):
    """So jobs submitted at different times share calls."""
    for n in range(100):
        poller.watch(f"job-{n}")
        await cloud.rounds(poller, 5)
    before = len(cloud.calls)
    await cloud.rounds(poller, 60)
    assert len(cloud.calls) - before <= 60 / FAST_S


async def test_a_long_job_is_looked_at_less_often_and_a_change_makes_it_fresh(poller, cloud):
    poller.watch("job")
    await cloud.rounds(poller, 60)
    early = len(cloud.calls)
    await cloud.rounds(poller, 3600)
    cloud.calls.clear()
    await cloud.rounds(poller, 60)
    assert early == 60 / FAST_S and len(cloud.calls) == 60 / SLOW_S
    cloud.status = "RUNNABLE"
    await cloud.rounds(poller, SLOW_S)
    cloud.calls.clear()
    await cloud.rounds(poller, 60)
    assert len(cloud.calls) == early


async def test_hurry_looks_in_the_next_round(poller, cloud):
    poller.watch("job")
    await cloud.rounds(poller, 3600)
    cloud.calls.clear()
    await poller.round()
    poller.hurry("job")
    await poller.round()
    assert ["job"] in cloud.calls


async def test_throttling_slows_down_and_ends(poller, cloud, warnings):
    watch = poller.watch("job")
    cloud.fails = [error("TooManyRequestsException", 429)] * 5
    for _ in range(5):
        await poller.round()
    assert poller.pause_s == FAST_S * SLOWDOWN and not warnings
    for _ in range(6):
        cloud.now += poller.pause_s
        await poller.round()
    assert poller.pause_s == FAST_S and (await watch.next())["status"] == "RUNNING"


async def test_a_lost_network_is_reported_once_and_loses_no_job(poller, cloud, warnings):
    watch = poller.watch("job")
    cloud.fails = [EndpointConnectionError(endpoint_url="https://batch")] * 50
    for _ in range(50):
        await poller.round()
    assert len(warnings) == 1 and "AWS did not answer batch:DescribeJobs" in warnings[0]
    await poller.round()
    assert (await watch.next())["status"] == "RUNNING"


async def test_a_job_that_is_not_there_yet_is_waited_for(poller, cloud):
    watch, cloud.unknown = poller.watch("job"), {"job"}
    for _ in range(PATIENT_POLLS):
        poller.hurry("job")
        await poller.round()
    cloud.unknown = set()
    poller.hurry("job")
    await poller.round()
    assert (await watch.next())["jobId"] == "job"


@pytest.mark.parametrize("fails", [[], [error("AccessDeniedException", 403)] * 20])
async def test_a_job_that_aws_never_describes_ends_its_watch(poller, cloud, fails):
    watch, cloud.unknown, cloud.fails = poller.watch("job"), {"job"}, fails
    for _ in range(PATIENT_POLLS + 1):
        poller.hurry("job")
        await poller.round()
    assert await watch.next() is None and watch.lost
    cloud.calls.clear()
    await poller.round()
    assert cloud.calls == []


async def test_a_job_that_has_ended_costs_no_more_calls(poller, cloud):
    watch, cloud.status = poller.watch("job"), "SUCCEEDED"
    await poller.round()
    assert (await watch.next())["status"] == "SUCCEEDED"
    cloud.now += 100
    await poller.round()
    assert len(cloud.calls) == 1
