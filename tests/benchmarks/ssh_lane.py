"""Cost of a cell on an SSH lane, against the same cells on pool `local`, in one job each.

The box is a namespace of this machine with a real sshd and real containers: both lanes have the same cores
and no network between. The container, the tunnel of records, and the start differ.
"""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import LogSort

from gridbench.run.session import deploy
from infra.local.stack import LocalStack
from infra.local.workers import PoolWorker
from tasks.dispatch.flow_runs import lane_jobs
from tasks.store.store import Store
from tests.benchmarks.stack import run, stack
from tests.emulators import containers, images
from tests.emulators.boxes import boxes
from tests.emulators.lane import with_workload
from tests.emulators.prefect_api import client_of

CELLS = 10
GOAL = 1.1
NAPS = Path(__file__).parents[1] / "flows" / "workloads"
SUITE = """
title = "naps"
repeats = 1
quick = true
[[cases]]
workload = "nap"
size = {{ ms = {lengths_ms} }}
"""
MACHINE = """
title: This machine, by pool {pool}
pool: {pool}
device: cpu
threads: 1
price: {{usd_per_hour: 0, purchase: assumption, source: a benchmark, date: 2026-01-01}}
job_variables: {variables}
"""
LOCAL, OVER_SSH = "by-local", "by-ssh"
TURNS = (LOCAL, OVER_SSH, LOCAL)  # machines drift
LANE = "prefect.flow_runs"  # the logger of a flow
LOGS_S = 60.0  # for the last lines of a lane to be in the API


@dataclass(frozen=True)
class Lane:
    """Seconds of one lane job.

    Attributes:
        start_s: from submission to first cell.
        lane_s: from the first cell's start to the last record's delivery.
        own_s: of that, in the cells' processes.
    """

    start_s: float
    lane_s: float
    own_s: float


def main() -> None:
    """Print seconds a cell and of the start by both pools, and the ratios of SSH to local."""
    with ExitStack() as held:
        (box,) = held.enter_context(boxes(1))
        lock = Path(held.enter_context(tempfile.TemporaryDirectory())) / "lock"
        os.environ["GRIDBENCH_BOX_LOCK"] = str(lock)  # who measures on this machine is not seen from the box
        image = with_workload(images.built(containers.base_image()), NAPS / "nap.py")
        on_the_box = {"hosts": [box.host], "image": image, "pull": "never", "least_free_mib": 1}
        up = held.enter_context(stack(workloads=NAPS, files=files(on_the_box)))
        held.enter_context(ssh_worker(up))
        run(up, "one-nap", [LOCAL, OVER_SSH])  # torch is read from the disk once by each
        lanes = [(hardware, measured(up, hardware)) for hardware in TURNS]
    of = {name: [lane for hardware, lane in lanes if hardware == name] for name in (LOCAL, OVER_SSH)}
    print("\n".join(sentences(of[OVER_SSH], of[LOCAL])))


def files(on_the_box: dict[str, object]) -> dict[str, str]:
    return {
        "suites/naps.toml": SUITE.format(lengths_ms=list(range(1, CELLS + 1))),
        "suites/one-nap.toml": SUITE.format(lengths_ms=[1]),
        f"hardware/{LOCAL}.yaml": MACHINE.format(pool="local", variables="{}"),
        f"hardware/{OVER_SSH}.yaml": MACHINE.format(pool="ssh", variables=json.dumps(on_the_box)),
    }


@contextmanager
def ssh_worker(up: LocalStack) -> Iterator[None]:
    worker = PoolWorker("ssh", "ssh", up.state, up.api_url)
    try:
        worker.create_pool()
        worker.start([])
        deploy(False, up.environment, "ssh")
        yield
    finally:
        worker.stop()


def measured(up: LocalStack, hardware: str) -> Lane:
    store = Store(run(up, "naps", [hardware]).folder)
    records, _ = store.records()
    unmeasured = [f"{record.id}: {record.reasons}" for record in records if record.wall is None]
    assert len(records) == CELLS and not unmeasured, unmeasured
    last = max(records, key=lambda record: record.order)
    said = f"{last.id}: {last.verdict.value}"
    job, (began, ended) = asyncio.run(_times(up, store.plan.run, said))
    assert job.created
    own_s = sum(record.wall_s for record in records)
    return Lane(began - job.created.timestamp(), ended - began, own_s)


async def _times(up: LocalStack, name: str, said: str) -> tuple[FlowRun, tuple[float, float]]:
    """Return a run's lane job, and when it began the first cell and delivered the last."""
    async with client_of(up.api_url, up.state) as client:
        (job,) = await lane_jobs(client, name)
        wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[job.id]))
        deadline = time.monotonic() + LOGS_S
        while True:
            found = []
            for sort in (LogSort.TIMESTAMP_ASC, LogSort.TIMESTAMP_DESC):
                found += await client.read_logs(wanted, limit=200, sort=sort)
            # The lane's own lines: lines that the worker forwards from the container have their arrival time.
            lines = {line.message: line.timestamp.timestamp() for line in found if line.name == LANE}
            began = [at for text, at in lines.items() if text.startswith(f"[1/{CELLS}] ")]
            ended = [at for text, at in lines.items() if text.startswith(said)]
            if began and ended:
                return job, (began[0], ended[0])
            assert time.monotonic() < deadline, lines
            await asyncio.sleep(0.5)


def sentences(ssh: list[Lane], local: list[Lane]) -> list[str]:
    """Return the cost of SSH by cell and by job, as ratios to the local pool."""
    cell_s = [mean(lane.lane_s for lane in lanes) / CELLS for lanes in (ssh, local)]
    over_s = [mean(lane.lane_s - lane.own_s for lane in lanes) / CELLS for lanes in (ssh, local)]
    start_s = [mean(lane.start_s for lane in lanes) for lanes in (ssh, local)]
    said = (
        (f"cells of a lane with {CELLS} cells a job", "s a cell", cell_s, f" (goal at most {GOAL} for this)"),
        ("of that beside the cells' own processes", "s a cell", over_s, ""),
        ("start, from submission to the first cell", "s a job", start_s, ""),
    )
    return [
        f"lane over SSH, {what}: {over:.3f} {unit}, {over / base:.3f} of the {base:.3f} s on pool local{goal}"
        for what, unit, (over, base), goal in said
    ]
