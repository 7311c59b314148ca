"""DescribeJobs calls and memory of the aws-batch worker with 1, 100 and 1,000 live jobs, against a stub.

The stub answers HTTP, so botocore, the poller and the followers are measured, and not the emulator.
"""

import asyncio
import gc
import logging
import math
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import dumps, loads

import anyio
import psutil
from prefect.client.schemas.objects import FlowRun

from infra.workers.batch.configuration import AwsBatchJobConfiguration
from infra.workers.batch.follow import BatchFollow
from infra.workers.batch.logs import LogReader, Tail
from infra.workers.batch.poller import Poller
from infra.workers.batch.region import RegionCalls
from infra.workers.batch.settings import BatchSettings
from infra.workers.batch.submit import describe
from tests.emulators.fixtures import environment

LIVE = (1, 100, 1000)
AGES = {"just started": 0.0, "an hour old": 3600.0}
MINUTE_S = 60.0
ENVIRONMENT = [{"name": f"VARIABLE_{n}", "value": "x" * 100} for n in range(40)]  # as large as Prefect's own


class Batch(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = 0

    def do_POST(self) -> None:
        jobs = loads(self.rfile.read(int(self.headers["Content-Length"])))["jobs"]
        type(self).calls += 1
        body = dumps({"jobs": [described(job_id) for job_id in jobs]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None: ...


def described(job_id: str) -> dict[str, object]:
    container = {"image": "bench", "environment": ENVIRONMENT, "command": ["python", "-m", "prefect.engine"]}
    arn = f"arn:aws:batch:us-east-1:123456789012:job/{job_id}"
    return {"jobId": job_id, "jobArn": arn, "jobName": job_id, "status": "RUNNING", "container": container}


@contextmanager
def stub() -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Batch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ours = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
    }
    try:
        with environment(**ours):
            yield
    finally:
        server.shutdown()


class Minutes:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def _to_nobody(*_: object) -> None: ...


async def follow(jobs: int, age_s: float) -> tuple[int, int]:
    """Follow jobs for a minute; return the calls, and the process's bytes."""
    region, pace, clock = RegionCalls("us-east-1"), BatchSettings(), Minutes()
    poller = Poller(partial(describe, region), pace.poll_s, pace.slowest_s, clock=clock)
    asked = AwsBatchJobConfiguration(image="bench", job_queue="q")
    log = logging.LoggerAdapter(logging.getLogger("batch-benchmark"), {})

    reader = LogReader(region.call, _to_nobody, pace.log_calls_per_s, pace.poll_s, pace.slowest_s, print)

    async def nothing(stream: str) -> None:
        return None

    async with anyio.create_task_group() as group:
        for _ in range(jobs):
            run = FlowRun(id=uuid.uuid4(), flow_id=uuid.UUID(int=1), name="a-lane")
            tail = Tail(run.id, nothing)
            follower = BatchFollow(
                run=run,
                job_id=str(uuid.uuid4()),
                log=log,
                set_labels=_to_nobody,
                configuration=asked,
                region=region,
                poller=poller,
                reader=reader,
                tail=tail,
                settings=pace,
            )
            group.start_soon(follower.to_the_end)
        await anyio.wait_all_tasks_blocked()
        await poller.round()
        clock.now_s = age_s
        await poller.round()
        calls = -Batch.calls
        while clock.now_s < age_s + MINUTE_S:
            clock.now_s += poller.pause_s
            await poller.round()
        calls += Batch.calls
        gc.collect()
        memory = psutil.Process().memory_info().rss
        group.cancel_scope.cancel()
    return calls, memory


def main() -> None:
    subprocess.run([sys.executable, "-m", "tests.benchmarks.batch"], check=True)


def measure() -> None:
    with stub():
        asyncio.run(follow(1, 0))  # imports and clients are there before anything is counted
        for said, age_s in AGES.items():
            found = {jobs: asyncio.run(follow(jobs, age_s)) for jobs in LIVE}
            one_calls, one_bytes = found[1]
            for jobs, (calls, memory) in found.items():
                print(
                    f"aws-batch, {jobs} jobs {said}: {calls} DescribeJobs calls a minute,"
                    f" {calls / one_calls:.2f} times those of one job (goal {math.ceil(jobs / 100)});"
                    f" worker memory {memory / one_bytes:.3f} times that with one job"
                    f" ({memory / 2**20:.0f} MiB)"
                )


if __name__ == "__main__":
    measure()
