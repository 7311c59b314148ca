"""A server and a worker with the benchmarks' deployments, and runs of `bench` on them."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from gridbench.run.session import deploy
from infra.local.stack import LOCAL, LocalStack
from tests.emulators.prefect_api import client_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INSTANT = """
title: Answers at once
pool: local
device: cpu
command: [{python}, {instant}]
price: {{usd_per_hour: 0, purchase: assumption, source: a benchmark, date: 2026-01-01}}
"""
NOTHINGS = 'title = "{n} cells"\nrepeats = 1\n[[cases]]\nworkload = "nothing"\nsize = {{ n = {sizes} }}\n'

NO_MORE: Mapping[str, str] = {}


@dataclass(frozen=True)
class Ran:
    """A run's seconds from request to end, and the peak memory of its `bench` process."""

    wall_s: float
    peak_bytes: int
    folder: Path


@contextmanager
def stack(
    cells: tuple[int, ...] = (),
    workloads: Path = HERE / "workloads",
    files: Mapping[str, str] = NO_MORE,
    pools: Mapping[str, str] = LOCAL,
) -> Iterator[LocalStack]:
    """Run a stack with a suite for each number of cells, and hardware `instant`.

    `files` are more deployments. Without `pools` nothing is deployed.
    """
    with tempfile.TemporaryDirectory(prefix="gridbench-perf-") as root:
        folder = Path(root)
        shutil.copytree(ROOT / "deployments", folder / "deployments")
        for name, text in files.items():
            (folder / "deployments" / name).write_text(text)
        for n in cells:
            text = NOTHINGS.format(n=n, sizes=list(range(1, n + 1)))
            (folder / "deployments" / "suites" / f"nothing-{n}.toml").write_text(text)
        text = INSTANT.format(python=sys.executable, instant=HERE / "instant.py")
        (folder / "deployments" / "hardware" / "instant.yaml").write_text(text)
        os.environ |= {
            "GRIDBENCH_DEPLOYMENTS": str(folder / "deployments"),
            "GRIDBENCH_WORKLOADS": str(workloads),
            "GRIDBENCH_RESULTS": str(folder / "results"),
        }
        with LocalStack(folder / "state", pools=pools) as up:
            os.environ |= up.environment
            if pools:
                deploy(schedules=False, settings=up.environment)
            yield up


def run(up: LocalStack, suite: str, hardware: list[str]) -> Ran:
    return asyncio.run(_run(up, {"suite": suite, "hardware": hardware}))


async def _run(up: LocalStack, parameters: dict[str, object]) -> Ran:
    async with client_of(up.api_url, up.state) as client:
        found = await client.read_deployment_by_name("bench/quick")
        peak = 0
        flow_run = await client.create_flow_run_from_deployment(found.id, parameters=parameters)
        process = None
        while not (now := await client.read_flow_run(flow_run.id)).state.is_final():
            process = process or _process(now.infrastructure_pid)
            with suppress(psutil.Error):
                peak = max(peak, process.memory_info().rss if process else 0)
            await asyncio.sleep(0.5)
        wall_s = (now.end_time - now.expected_start_time).total_seconds()
        assert now.state.is_completed(), f"{now.state.name}: {now.state.message}"
        return Ran(wall_s, peak, Path(os.environ["GRIDBENCH_RESULTS"]) / now.name)


def _process(pid: str | None) -> psutil.Process | None:
    with suppress(psutil.Error):
        return psutil.Process(int(pid)) if pid else None
    return None
