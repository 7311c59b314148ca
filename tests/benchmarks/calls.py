"""Requests, events and bytes a minute of a bench with 10,000 cells on ten rented lanes and three workers.

A counting relay sees all traffic. Lanes are real flow runs whose measuring sleeps; ten tasks poll the API
like ten rentals. The pace of Prefect Cloud's smallest plan is compared with that of a private server.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlparse
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.states import Cancelling

from gridbench.run.session import deploy
from infra.local.settings import service_environment
from infra.local.stack import LocalStack
from tasks.delivery.pace import PACES, ApiPlan, Pace
from tasks.dispatch.flow_runs import lane_jobs, myself_and_bench
from tests.benchmarks.counting import Counts, counting
from tests.benchmarks.stack import HERE, ROOT, stack
from tests.emulators.prefect_api import client_of

LANES, WORKERS, CELLS = 10, 3, 10_000
MEASURING_S = 5.0  # a repeat: 120 records a minute
SETTLE_S, WINDOW_S, MINUTE_S = 90.0, 180.0, 60.0
OWN_RENTAL_S = 3.0
GOAL = 300
LANE = """
title: Sleeps in the place of measuring
pool: local
box: sleeper-{number}
device: cpu
command: [{python}, {instant}, --sleep={measuring_s}]
price: {{usd_per_hour: 0, purchase: assumption, source: a benchmark, date: 2026-01-01}}
"""


@contextmanager
def workers(up: LocalStack, plan: ApiPlan) -> Iterator[None]:
    settings = service_environment(up.state, up.api_url, "worker")
    settings |= {"GRIDBENCH_PREFECT_PLAN": plan, "PREFECT_WORKER_QUERY_SECONDS": "10"}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--type", "process", "--pool", "local"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [
        subprocess.Popen([*command, "--name", f"w{number}"], env=settings, cwd=ROOT, **quiet)
        for number in range(WORKERS)
    ]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


async def rentals(client: PrefectClient, pace: Pace, run: str, me: UUID) -> None:
    async def one() -> None:
        bench = None
        while True:
            _, bench = await myself_and_bench(client, me, run, bench)
            await asyncio.sleep(pace.rental_s or OWN_RENTAL_S)

    await asyncio.gather(*(one() for _ in range(LANES)))


async def minute(up: LocalStack, plan: ApiPlan, counts: Counts) -> None:
    """Run `bench` at a plan's pace for a few minutes; leave the counts of the last window."""
    lanes = [f"sleeper-{number}" for number in range(LANES)]
    parameters = {"suite": f"nothing-{CELLS // LANES}", "hardware": lanes}
    async with client_of(up.api_url, up.state) as client:
        found = await client.read_deployment_by_name("bench/quick")
        flow_run = await client.create_flow_run_from_deployment(found.id, parameters=parameters)
        while len(await lane_jobs(client, (await client.read_flow_run(flow_run.id)).name)) < LANES:
            await asyncio.sleep(2)
        name = (await client.read_flow_run(flow_run.id)).name
        looking = asyncio.create_task(rentals(client, PACES[plan], name, flow_run.id))
        await asyncio.sleep(SETTLE_S)
        counts.clear()
        await asyncio.sleep(WINDOW_S)
        looking.cancel()
        told(plan, counts)
        await client.set_flow_run_state(flow_run.id, Cancelling(), force=True)
        while not (await client.read_flow_run(flow_run.id)).state.is_final():
            await asyncio.sleep(1)


def told(plan: ApiPlan, counts: Counts) -> None:
    share = MINUTE_S / WINDOW_S
    calls, messages = counts.calls.total() * share, counts.messages * share
    print(
        f"plan {plan}: {calls:.0f} requests and {messages:.0f} messages on sockets a minute, "
        f"{(calls + messages) / GOAL:.2f} of {GOAL} (goal 1 on {ApiPlan.HOBBY}); "
        f"{counts.sent_bytes * share / 1e3:.0f} kB sent and {counts.answered_bytes * share / 1e3:.0f} kB answered"
    )
    for path, count in counts.calls.most_common(8):
        print(f"  {count * share:6.1f} {path}")


def main() -> None:
    instant = {"python": sys.executable, "instant": HERE / "instant.py", "measuring_s": MEASURING_S}
    files = {f"hardware/sleeper-{n}.yaml": LANE.format(number=n, **instant) for n in range(LANES)}
    for plan in (ApiPlan.HOBBY, ApiPlan.OWN):
        with ExitStack() as held:
            up = held.enter_context(stack((CELLS // LANES,), files=files, pools={}))
            port, counts = held.enter_context(counting(urlparse(up.api_url).port or 0))
            direct, up.api_url = up.api_url, f"http://127.0.0.1:{port}/api"
            os.environ |= up.environment
            held.enter_context(workers(up, plan))
            asyncio.run(_pool(up))
            deploy(schedules=False, settings=up.environment)
            asyncio.run(minute(up, plan, counts))
            up.api_url = direct


async def _pool(up: LocalStack) -> None:
    async with client_of(up.api_url, up.state) as client:
        while "local" not in {pool.name for pool in await client.read_work_pools()}:
            await asyncio.sleep(0.5)
