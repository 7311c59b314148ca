import logging
import uuid

import anyio
import pytest
from botocore.exceptions import ClientError
from prefect import states
from prefect.client.schemas.objects import FlowRun

from infra.workers.batch.configuration import AwsBatchJobConfiguration
from infra.workers.batch.follow import BatchFollow, machine_time
from infra.workers.batch.logs import LogReader, Tail
from infra.workers.batch.poller import Poller
from infra.workers.batch.settings import BatchSettings
from tasks.dispatch.job_end import JobEnd
from tasks.dispatch.lane import HOPELESS

FAST_S = 0.01
ASKED = 3  # times


class Region:
    """An account that must not terminate jobs; its job ends after some requests to end it."""

    name = "us-east-1"

    def __init__(self):
        self.refused = 0

    async def call(self, service, operation, **request):
        assert operation == "terminate_job"
        self.refused += 1
        answer = {"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}
        raise ClientError(answer | {"ResponseMetadata": {"HTTPStatusCode": 403}}, "TerminateJob")

    async def describe(self, ids):
        status = "FAILED" if self.refused >= ASKED else "RUNNING"
        ended = {"container": {"exitCode": 3}, "statusReason": "Essential container in task exited"}
        return [{"jobId": ids[0], "status": status} | (ended if status == "FAILED" else {})]


class Blind(Region):
    """An account in which the worker cannot see its jobs, but can end them if `ends`."""

    def __init__(self, ends):
        super().__init__()
        self.ends = ends

    async def call(self, service, operation, **request):
        if not self.ends:
            await super().call(service, operation, **request)

    async def describe(self, ids):
        answer = {"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}
        raise ClientError(answer | {"ResponseMetadata": {"HTTPStatusCode": 403}}, "DescribeJobs")


async def followed(region, *, cancelled=True):
    warned = []

    async def nothing(*_):
        return None

    run = FlowRun(flow_id=uuid.UUID(int=1), state=states.Running())
    poller = Poller(region.describe, FAST_S, FAST_S)
    follow = BatchFollow(
        run=run,
        job_id="job",
        log=logging.LoggerAdapter(logging.getLogger("test"), {}),
        set_labels=nothing,
        configuration=AwsBatchJobConfiguration.model_construct(
            attempts=1, capacity_deadline_s=60, timeout_s=3600
        ),
        region=region,
        poller=poller,
        reader=LogReader(region.call, nothing, 1, FAST_S, FAST_S, warned.append),
        tail=Tail(run.id, nothing),
        settings=BatchSettings(),
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(poller.run)
            if cancelled:
                follow.cancel()
            ended = await follow.to_the_end()
            group.cancel_scope.cancel()
    assert not warned
    return ended


async def test_a_cancelled_job_that_could_not_be_terminated_is_not_called_terminated(caplog):
    ended = await followed(Region())
    assert ended.name == "Cancelled" and "terminated" not in ended.message, ended.message
    assert "the job ended by itself first" in ended.message
    said = [line.message for line in caplog.records if "not terminated yet" in line.message]
    assert len(said) == 1 and "batch:TerminateJob" in said[0]


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_job_that_can_neither_be_seen_nor_ended_is_not_said_to_have_ended(cancelled):
    ended = await followed(Blind(ends=False), cancelled=cancelled)
    assert "ended" not in ended.message
    assert "batch:DescribeJobs" in ended.message
    assert "timeout_s 3600" in ended.message
    if cancelled:
        assert ended.name == "Cancelled" and "its end was not observed" in ended.message
    else:
        assert JobEnd(ended.cause.value) in HOPELESS, "no second machine costs beside it"


async def test_a_job_that_can_not_be_seen_is_ended():
    ended = await followed(Blind(ends=True), cancelled=False)
    assert (ended.name, "was terminated" in ended.message) == ("Unseen", True), ended.message
    ended = await followed(Blind(ends=True))
    assert ended.message == "Cancelled from Prefect; the AWS Batch job was terminated."


def test_a_jobs_time_is_that_which_batch_states():
    job = {"createdAt": 1_000_000, "startedAt": 1_030_000, "stoppedAt": 1_042_500}
    times = machine_time(job)
    assert (times.ended - times.began).total_seconds() == 42.5
    assert machine_time({"createdAt": 1_000_000, "stoppedAt": 1_042_500}).labels == {}, (
        "it never had a machine"
    )
