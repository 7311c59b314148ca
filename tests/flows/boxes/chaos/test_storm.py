"""Ten hostile boxes and an honest one, on one worker and in one run: within the bounds of docs/ssh.md."""

import asyncio
import shlex
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun

from infra.workers.ssh.worker import SshWorker
from tasks.dispatch.flow_runs import LANE_TAG, flow_runs, measuring
from tasks.dispatch.job_notes import FILE, NOTES
from tasks.dispatch.lane import job_usd
from tasks.planning.hardware import load_hardware
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from tests.emulators.boxes import boxes, has_all_packages
from tests.flows.boxes.chaos import hostile
from tests.infra.workers.worker_prefect import Prefect
from tests.tasks.dispatch.dispatched import Run
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.alone,  # its bounds of time are those of a Prefect server on SQLite, which a busy machine locks for minutes
    pytest.mark.timeout(1400),
]
ROOT = Path(__file__).parents[4]
MIB = 1024 * 1024
HONEST, POOL = "honest", "storm"
HOSTILE_S, LATE_S = 90, 120  # the time limit of a hostile job, and for the box to stop it on these CPUs
NAP_S = 4.0  # of a repeat of the honest lane: it lasts as long as the storm
# The bounds of docs/ssh.md.
AT_ONCE_BYTES, BYTES_PER_S = 64 * MIB, 64 * 1024  # that a box makes the server store
WORKER_BYTES = 1024 * MIB  # of memory


@pytest.fixture
def prefect(tmp_path):
    server = Prefect(tmp_path / "prefect", locked=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def eleven():
    with boxes(1 + len(hostile.DEEDS)) as made:
        for box in made:
            has_all_packages(box)
        yield made


def machines(eleven):
    """The honest box, which measures with the flow `lane`, and one box for each deed."""
    base = load_hardware("local-cpu-1")
    shared = {"container_command": "none", "python": sys.executable, "least_free_mib": 1, "wait_s": 600}
    instant = (sys.executable, str(ROOT / "tests/benchmarks/instant.py"), f"--sleep={NAP_S}")
    for box, deed in zip(eleven, (None, *hostile.DEEDS), strict=True):
        own = {"hosts": [box.host], "timeout_s": HOSTILE_S if deed else 1200}
        if deed:
            own["command"] = shlex.join([sys.executable, hostile.__file__, deed])
        changes = {
            "name": deed or HONEST,
            "pool": POOL,
            "box": None,
            "reference": None,
            "command": instant,
            "job_variables": shared | own,
        }
        yield base.model_copy(update=changes)


async def deploy(client):
    template = SshWorker.get_default_base_job_template()
    await client.create_work_pool(WorkPoolCreate(name=POOL, type="ssh", base_job_template=template))
    await client.create_deployment(
        flow_id=await client.create_flow_from_name("lane"),
        name=POOL,
        work_pool_name=POOL,
        entrypoint="flows/lane.py:lane",
        pull_steps=[{"prefect.deployments.steps.set_working_directory": {"directory": "."}}],
        enforce_parameter_schema=False,
    )


@dataclass
class Watched:
    worker: psutil.Process
    most_bytes: int = 0
    late_s: float = 0.0
    lasted_s: float = 0.0
    stored_bytes: int = 0
    spent_usd: float = 0.0
    jobs: list[FlowRun] = field(default_factory=list)
    ended: dict[str, FlowRun] = field(default_factory=dict)  # the first job of each lane

    async def watch(self):
        while True:
            with suppress(psutil.Error):
                self.most_bytes = max(self.most_bytes, self.worker.memory_info().rss)
            before = time.monotonic()
            await asyncio.sleep(0.2)
            self.late_s = max(self.late_s, time.monotonic() - before - 0.2)


async def jobs(client):
    return await flow_runs(client, FlowRunFilter(tags=FlowRunFilterTags(all_=[LANE_TAG])))


def lane_of(job):
    return job.parameters["hardware"]


@asynccontextmanager
async def worker_of(prefect):
    asked = {"SSH_WORKER_POLL_S": "1", "SSH_WORKER_FLUSH_S": "1"}
    process = prefect.worker_process(POOL, "w1", "ssh", **asked)
    watched = Watched(psutil.Process(process.pid))
    watching = asyncio.create_task(watched.watch())
    try:
        yield watched
    finally:
        watching.cancel()
        process.terminate()
        process.wait()


def stored_bytes(prefect):
    return sum(path.stat().st_size for path in prefect.folder.rglob("prefect.db*"))


async def until_all_have_ended(client, run, watched):
    """Wait for the honest records, and for the end of the first job of every other lane."""
    honest = [task for cell, task in run.cells.items() if cell.hardware == HONEST]
    async with asyncio.timeout(1200):
        await asyncio.gather(*honest)
        while len(watched.ended) < 1 + len(hostile.DEEDS):
            for job in reversed(await jobs(client)):  # the first one of a lane is noted last
                if job.state.is_final():
                    watched.ended[lane_of(job)] = job
            await asyncio.sleep(1)


async def stormed(prefect, store):
    async with prefect.client() as client:
        await deploy(client)
        async with worker_of(prefect) as watched:
            before_bytes, began = stored_bytes(prefect), time.monotonic()
            async with Run(store, poll_s=1.0) as run:
                await until_all_have_ended(client, run, watched)
                assert await measuring(client, store.plan.run) == []  # no lane job has its name
            watched.jobs = await jobs(client)
            async with asyncio.timeout(300):
                while not all(job.state.is_final() for job in watched.jobs):
                    await asyncio.sleep(1)
                    watched.jobs = await jobs(client)
            watched.lasted_s = time.monotonic() - began
            watched.stored_bytes = stored_bytes(prefect) - before_bytes
            watched.spent_usd = run.lanes.spent_usd()
            return watched


async def test_an_honest_run_loses_nothing_and_the_bounds_hold(prefect, eleven, tmp_path):
    machine_by_name = {machine.name: machine for machine in machines(eleven)}
    names = tuple(machine_by_name)
    found = tuple(machine_by_name.values())
    plan = make_plan(RunRequest(suite="quick", hardware=names, found=found, repeats=2, seed=7))
    store = Store.create(tmp_path / "results", plan)
    with prefect.settings():
        watched = await stormed(prefect, store)
    ended = watched.ended
    figures = (
        f"{watched.lasted_s:.0f} s; worker {watched.most_bytes / MIB:.0f} MiB at most; "
        f"database {watched.stored_bytes / MIB:.0f} MiB more; loop of bench late by {watched.late_s:.1f} s at most; "
        f"{len(watched.jobs)} jobs for {watched.spent_usd:.3f} USD; "
        f"ends: { ({name: (job.state.name, round(seconds_of(job))) for name, job in ended.items()}) }"
    )
    print(figures)
    of_honest = [record for record in store.records()[0] if record.hardware == HONEST]
    expected = plan.repeats_on(machine_by_name[HONEST])
    assert sorted(record.id for record in of_honest) == sorted(repeat.id for repeat in expected), figures
    assert {record.verdict for record in of_honest} == {Verdict.OK}, figures
    assert ended[HONEST].state.is_completed(), figures
    assert not [
        record for record in store.records()[0] if record.verdict is Verdict.OK and record.hardware != HONEST
    ]
    notes = NOTES.validate_json((store.folder / FILE).read_bytes())
    billed_s = {note.flow_run_id: note.billed_s for note in notes}
    for name in hostile.DEEDS:
        assert seconds_of(ended[name]) < HOSTILE_S + LATE_S, figures
        assert billed_s[ended[name].id] < HOSTILE_S + LATE_S, (notes, figures)
    most_s = {name: HOSTILE_S + LATE_S for name in hostile.DEEDS} | {HONEST: watched.lasted_s}
    most_usd = sum(job_usd(machine_by_name[lane_of(job)], most_s[lane_of(job)]) for job in watched.jobs)
    assert 0 < watched.spent_usd <= most_usd, figures
    assert watched.most_bytes < WORKER_BYTES, figures
    assert watched.stored_bytes < len(hostile.DEEDS) * (AT_ONCE_BYTES + BYTES_PER_S * watched.lasted_s), (
        figures
    )
    assert [box.jobs() for box in eleven] == [[]] * len(eleven)


def seconds_of(job):
    return (job.end_time - job.start_time).total_seconds() if job.start_time and job.end_time else 0.0
