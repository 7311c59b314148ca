"""Real nights on this machine by a schedule: `python -m tests.benchmarks.nights [KIND…]`, 25 minutes.

Thirteen quiet nights, two with one of two workloads 20 % slower, two with a core hogged as well. It prints
each night's end and every ticket, and exits with 1 unless the slowdown got the only ticket for a regression,
in the first two slow nights. On a noisy machine a night can lack a number.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import IntervalSchedule

from infra.local.stack import LocalStack
from tasks.regressions.gate_file import Ticket, read_verdicts
from tests.benchmarks.stack import ROOT, stack
from tests.emulators.prefect_api import client_of

KINDS = [*["quiet"] * 13, "slow", "slow", "hog", "hog"]
EVERY_S = 60
SLEEPERS = ROOT / "tests" / "flows" / "workloads"
MACHINE = """
title: This machine
pool: local
box: local
device: cpu
threads: 1
price: {{usd_per_hour: 0.10, purchase: assumption, source: of a test, date: 2026-11-21}}
command: [env, DOZE_FACTOR={factor}, {python}, -P, -m, workloads]
"""
SUITE = """
title = "Two cases that are watched"
repeats = 8
minutes = 1
timeout_s = 120
[[cases]]
workload = "doze"
size = { ms = 5 }
[[cases]]
workload = "nap"
size = { ms = 5 }
"""
PLANTED = {"quiet": 1.0, "slow": 1.2, "hog": 1.2}


def main(kinds: list[str]) -> int:
    files = {"suites/real.toml": SUITE, "hardware/real.yaml": machine("quiet")}
    with stack(workloads=SLEEPERS, files=files) as up:
        deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--name", "nightly"]
        subprocess.run(deploy, cwd=ROOT, check=True, capture_output=True)
        filed = asyncio.run(nights(up, kinds))
    planted = [kind == "slow" and ticket.cases == ("doze/ms=5/fp32",) for kind, ticket in filed]
    print(f"{sum(planted)} tickets for what was planted, {len(planted) - sum(planted)} others")
    return 0 if planted == [True] else 1


def machine(kind: str) -> str:
    return MACHINE.format(factor=PLANTED[kind], python=sys.executable)


async def nights(up: LocalStack, kinds: list[str]) -> list[tuple[str, Ticket]]:
    told: set[str] = set()
    filed: list[tuple[str, Ticket]] = []
    async with client_of(up.api_url, up.state) as client:
        deployment = await client.read_deployment_by_name("nightly/nightly")
        for old in deployment.schedules:
            await client.delete_deployment_schedule(deployment.id, old.id)
        asked = {"suite": "real", "hardware": ["real"], "results": str(results())}
        await client.update_deployment(deployment.id, DeploymentUpdate(parameters=asked))
        begins = IntervalSchedule(interval=timedelta(seconds=EVERY_S), anchor_date=datetime.now(UTC))
        await client.create_deployment_schedules(deployment.id, [(begins, True)])
        await client.resume_deployment(deployment.id)
        for number, kind in enumerate(kinds, 1):
            set_speed(kind)
            with hog() if kind == "hog" else nullcontext():
                async for run in ended(client, deployment.id, told):
                    print(f"{number:2} {kind:5} {run.state.name}: {run.state.message}", flush=True)
            filed += [(kind, ticket) for ticket in new_tickets(told)]
        await client.pause_deployment(deployment.id)
    return filed


def results() -> Path:
    return Path(os.environ["GRIDBENCH_RESULTS"])


def set_speed(kind: str) -> None:
    Path(os.environ["GRIDBENCH_DEPLOYMENTS"], "hardware", "real.yaml").write_text(machine(kind))


@contextmanager
def hog() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def ended(client: PrefectClient, deployment: UUID, seen: set[str]) -> AsyncIterator[FlowRun]:
    """Yield the deployment's runs as they end, until one has measured."""
    wanted = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[deployment]))
    while True:
        for run in await client.read_flow_runs(flow_run_filter=wanted):
            if run.state.is_final() and str(run.id) not in seen:
                seen.add(str(run.id))
                yield run
                if run.state.name != "Skipped":
                    return
        await asyncio.sleep(1)


def new_tickets(seen: set[str]) -> list[Ticket]:
    found = [verdicts for folder in sorted(results().iterdir()) if (verdicts := read_verdicts(folder))]
    new = [verdicts for verdicts in found if verdicts.run not in seen]
    seen |= {verdicts.run for verdicts in new}
    return [ticket for verdicts in new for ticket in verdicts.bad]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or KINDS))
