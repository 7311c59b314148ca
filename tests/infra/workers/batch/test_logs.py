import datetime as dt
import uuid

import anyio
import httpx
import pytest
from botocore.exceptions import ClientError

from infra.workers.batch.logs import LogReader, Tail, logger_name, position_of

RUN = uuid.UUID(int=5)


class CloudWatch:
    """GetLogEvents as AWS answers: pages, a constant token at the end, and faults."""

    def __init__(self, page=3):
        self.streams, self.page, self.calls, self.fails = {}, page, [], []

    def put(self, stream, *messages, at_ms=1000):
        self.streams.setdefault(stream, []).extend((at_ms, message) for message in messages)

    async def call(self, service, operation, **request):
        self.calls.append(request)
        if self.fails and (fail := self.fails.pop(0)):
            raise fail
        events = self.streams.get(request["logStreamName"])
        if events is None:
            raise error("ResourceNotFoundException")
        events = [event for event in events if event[0] >= request.get("startTime", 0)]
        start = int(request.get("nextToken", "0"))
        page = events[start : start + self.page]
        found = [{"timestamp": at_ms, "message": message} for at_ms, message in page]
        return {"events": found, "nextForwardToken": str(start + len(page))}


def error(code):
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "GetLogEvents")


class Prefect:
    def __init__(self):
        self.lines, self.fails = [], 0

    async def send(self, lines):
        if self.fails:
            self.fails -= 1
            raise httpx.ConnectError("the server restarts")
        self.lines += lines

    @property
    def messages(self):
        return [line.message for line in self.lines]

    async def last(self, stream):
        found = [line for line in self.lines if line.name == logger_name(stream)]
        return max((position_of(line.timestamp) for line in found), default=None)


@pytest.fixture
def cloud():
    return CloudWatch()


@pytest.fixture
def prefect():
    return Prefect()


@pytest.fixture
def reader(cloud, prefect):
    return LogReader(cloud.call, prefect.send, 1000, 0.01, 1, lambda text: None)


@pytest.fixture
def tail(prefect):
    return Tail(RUN, prefect.last)


def job(*streams, group=None):
    container = {"logStreamName": streams[-1]}
    if group:
        container["logConfiguration"] = {"options": {"awslogs-group": group}}
    ended = [{"container": {"logStreamName": name}} for name in streams[:-1]]
    return {"container": container, "attempts": ended}


async def test_all_lines_once_over_pages_and_attempts(reader, cloud, prefect, tail):
    cloud.put("p/default/a", *"abcdefg")
    cloud.put("p/default/b", "h")
    tail.learn(job("p/default/a", group="/mine"))
    await reader.finish(tail, 0)
    tail.learn(job("p/default/a", "p/default/b", group="/mine"))
    await reader.finish(tail, 0)
    assert prefect.messages == list("abcdefgh")
    assert {call["logGroupName"] for call in cloud.calls} == {"/mine"}


async def test_lines_keep_their_time_and_their_order(reader, cloud, prefect, tail):
    cloud.put("s", "first", "second", at_ms=1_700_000_000_123)
    tail.learn(job("s"))
    await reader.finish(tail, 0)
    first, second = (line.timestamp for line in prefect.lines)
    assert first == dt.datetime.fromtimestamp(1_700_000_000.123, dt.UTC) and first < second
    assert second - first < dt.timedelta(milliseconds=1)


async def test_a_line_that_comes_after_the_end_is_read_once_more(reader, cloud, prefect, tail):
    cloud.put("s", "early")
    tail.learn(job("s"))
    async with anyio.create_task_group() as group:
        group.start_soon(reader.finish, tail, 0.1)
        await anyio.sleep(0.05)
        cloud.put("s", "late")
    assert prefect.messages == ["early", "late"]


async def test_a_new_worker_goes_on_behind_the_last_line(reader, cloud, prefect, tail):
    cloud.put("s", *"abcd", at_ms=1000)
    cloud.put("s", *"ef", at_ms=1001)
    tail.learn(job("s"))
    await reader.step(tail)
    successor = Tail(RUN, prefect.last)
    successor.learn(job("s"))
    await reader.finish(successor, 0)
    assert prefect.messages == list("abcdef")


@pytest.mark.parametrize("down", [1, 4])
async def test_prefect_away_for_a_while_loses_and_doubles_nothing(reader, cloud, prefect, tail, down):
    cloud.put("s", *"abcdefg")
    tail.learn(job("s"))
    await reader.step(tail)
    prefect.fails = down
    await reader.finish(tail, 0)
    assert prefect.messages == list("abcdefg")


@pytest.mark.parametrize("code", ["ThrottlingException", "ServiceUnavailableException", None])
async def test_failing_calls_lose_nothing(reader, cloud, prefect, tail, code):
    cloud.put("s", *"abcdefg")
    cloud.fails = (
        [None, error(code) if code != "ServiceUnavailableException" else unavailable()] if code else []
    )
    tail.learn(job("s"))
    await reader.finish(tail, 0)
    assert prefect.messages == list("abcdefg")


def unavailable():
    answer = {"Error": {"Code": "ServiceUnavailableException"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
    return ClientError(answer, "GetLogEvents")


async def test_a_stream_without_a_line_yet_is_waited_for(reader, cloud, prefect, tail):
    tail.learn(job("s"))
    assert not await reader.step(tail) and not tail.closed
    cloud.put("s", "there")
    await reader.finish(tail, 0)
    assert prefect.messages == ["there"]


async def test_lines_that_may_not_be_read_are_explained(reader, cloud, tail):
    cloud.fails = [error("AccessDeniedException")]
    tail.learn(job("s"))
    await reader.finish(tail, 0)
    assert "AWS does not allow the worker to call logs:GetLogEvents" in tail.closed and len(cloud.calls) == 1


async def test_lines_that_the_engine_sent_are_not_sent_again(reader, cloud, prefect, tail):
    of_engine = "12:00:00.123 | INFO    | Flow run 'quick-otter' - Hello"
    cloud.put(
        "s", of_engine, of_engine.replace("Flow", "Task"), "printed", "12:00:00.123 | INFO    | mine - x"
    )
    tail.learn(job("s"))
    await reader.finish(tail, 0)
    assert prefect.messages == ["printed", "12:00:00.123 | INFO    | mine - x"]


async def test_all_jobs_share_one_budget_of_calls(cloud, prefect, monkeypatch):
    """By the reader's clock, not the machine's."""
    slept = []

    async def sleep(for_s):
        slept.append(max(for_s, 0))

    monkeypatch.setattr("infra.workers.batch.logs.anyio.sleep", sleep)
    monkeypatch.setattr("infra.workers.batch.logs.time.monotonic", lambda: 100.0)
    reader = LogReader(cloud.call, prefect.send, 5, 1, 1, lambda text: None)
    for n in range(10):
        cloud.put(f"s{n}", "line")
        tail = Tail(RUN, prefect.last)
        tail.learn(job(f"s{n}"))
        await reader.step(tail)
    assert slept == pytest.approx([n / 5 for n in range(10)])


async def test_a_quiet_stream_is_looked_at_less_often(reader, cloud, tail):
    cloud.put("s", "line")
    tail.learn(job("s"))
    while await reader.step(tail):
        pass
    gaps = []
    for _ in range(4):
        await reader.step(tail)
        gaps.append(tail.quiet_s)
    assert gaps == sorted(gaps) and gaps[-1] >= 4 * gaps[0]
