"""Prefect's overhead: the quick suite over the same cells run bare, and a run's fixed cost."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from statistics import median
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from infra.local.stack import LocalStack
from infra.local.supervisor import marked
from tasks.dispatch.flow_runs import lane_jobs
from tests.benchmarks.stack import ROOT, run, stack
from tests.emulators.prefect_api import client_of

GOAL = 1.3
GOAL_S = 5.0
RUNS = 5
STAGES = (
    "worker takes bench",
    "bench's process starts",
    "bench plans, asks for its lane",
    "worker takes the lane",
    "the lane's process starts",
    "the lane measures and ends",
    "bench writes the report",
)


def bare_s() -> float:
    started = time.perf_counter()
    for hardware, threads in (("local-cpu-1", ["--threads", "1"]), ("local-cpu", [])):
        with tempfile.TemporaryDirectory() as out:
            command = [
                sys.executable,
                "-m",
                "workloads",
                "suite",
                "quick",
                "--hardware",
                hardware,
                "--out",
                out,
            ]
            subprocess.run(
                [*command, *threads], cwd=ROOT, capture_output=True, check=False, env=dict(os.environ)
            )
    return time.perf_counter() - started


def main() -> None:
    """Run bare, through Prefect, and bare again, because machines drift."""
    with stack() as up:
        first_s = bare_s()
        through_s = run(up, "quick", ["local-cpu-1", "local-cpu"]).wall_s
        bare = (first_s + bare_s()) / 2
    print(
        f"quick suite through Prefect / bare: {through_s:.1f} s / {bare:.1f} s = {through_s / bare:.3f} (goal {GOAL})"
    )


def standing() -> None:
    walls_s, cpus_s, stages_s = [], [], []
    with stack((1,)) as up:
        run(up, "nothing-1", ["instant"])  # the first run of a server is not like the others
        for _ in range(RUNS):
            before_s = _cpu_s(up)
            ran = run(up, "nothing-1", ["instant"])
            cpus_s.append(_cpu_s(up) - before_s)
            walls_s.append(ran.wall_s)
            stages_s.append(asyncio.run(_stages(up, ran.folder.name)))
    print(
        f"fixed cost of a run on a standing server: {median(walls_s):.1f} s "
        f"({min(walls_s):.1f} to {max(walls_s):.1f}), {median(cpus_s):.1f} s of CPU (goal {GOAL_S:.0f} s)"
    )
    for name, lengths_s in zip(STAGES, zip(*stages_s, strict=True), strict=True):
        print(f"  {median(lengths_s):5.2f} s {name}")


def _cpu_s(up: LocalStack) -> float:
    """Return the CPU seconds of a stack's processes and their reaped children."""
    times = [process.cpu_times() for process in marked(str(up.state), servers=True)]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


async def _stages(up: LocalStack, name: str) -> list[float]:
    """Return the lengths of `STAGES` of an ended run, in seconds."""
    async with client_of(up.api_url, up.state) as client:
        lane = (await lane_jobs(client, name))[-1]
        bench = await client.read_flow_run(await _parent(client, lane))
        times = [*await _begun(client, bench), *await _begun(client, lane), lane.end_time, bench.end_time]
    return [(after - before).total_seconds() for before, after in pairwise(times)]


async def _parent(client: PrefectClient, lane: FlowRun) -> UUID:
    assert lane.parent_task_run_id
    task_run = await client.read_task_run(lane.parent_task_run_id)
    assert task_run.flow_run_id
    return task_run.flow_run_id


async def _begun(client: PrefectClient, flow_run: FlowRun) -> list[datetime]:
    states = await client.read_flow_run_states(flow_run.id)
    taken = min(state.timestamp for state in states if state.is_pending())
    begun = min(state.timestamp for state in states if state.is_running())
    return [flow_run.created, taken, begun]
