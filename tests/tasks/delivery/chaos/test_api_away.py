"""A lane whose real Prefect server dies while it measures, and comes back.

Waits between tries are short, so that a few repeats stand for an hour.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.delivery.job_orders import send_order
from tasks.delivery.record_receiver import RecordReceiver
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from tests.emulators.prefect_api import client_of
from tests.infra.workers.worker_prefect import Prefect
from workloads.harness.records.record import Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server answers late where the machine is busy"
)
ROOT = Path(__file__).parents[4]
WITHIN_S = 240
# Stands in for `python -m workloads`: notes its arguments, and answers with a record.
COMMAND = """
import runpy, sys, time
with open({notes!r}, "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
time.sleep(0.3)
runpy.run_path({instant!r}, run_name="__main__")
"""
LANE = """
import sys
from pathlib import Path
from flows.lane import lane
from tasks.delivery import unsent_records
unsent_records.FOLDER = Path(sys.argv[1])
state = lane(run=sys.argv[2], hardware="local-cpu-1", count=14, timeout_s=3600, command=sys.argv[3:], return_state=True)
sys.exit(not state.is_completed())
"""


@pytest.fixture
def prefect(tmp_path):
    prefect = Prefect(tmp_path / "prefect")
    prefect.start()
    yield prefect
    prefect.kill()


def until(condition):
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


async def test_nothing_measured_is_lost_when_the_server_is_away(prefect, tmp_path):
    plan = make_plan(RunRequest(suite="quick", hardware=["local-cpu-1"], repeats=2, seed=7))
    store, repeats = Store.create(tmp_path / "results", plan), plan.repeats_on(plan.hardware[0])
    notes, box = tmp_path / "notes", tmp_path / "unsent"
    measure = tmp_path / "measure.py"
    measure.write_text(COMMAND.format(notes=str(notes), instant=str(ROOT / "tests/benchmarks/instant.py")))
    environment = prefect.environment | {
        "PYTHONPATH": str(ROOT),
        "GRIDBENCH_BOX_LOCK": str(tmp_path / "box.lock"),
        "GRIDBENCH_COURIER_RETRY_S": "0.2",
        "GRIDBENCH_COURIER_LONGEST_RETRY_S": "0.5",
        "PREFECT_CLIENT_MAX_RETRIES": "0",
    }
    words = [sys.executable, "-c", LANE, str(box), plan.run, sys.executable, str(measure)]
    log = (tmp_path / "lane.log").open("wb")
    lane = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        async with client_of(prefect.url) as client:
            while not (runs := await client.read_flow_runs()):
                assert lane.poll() is None, (tmp_path / "lane.log").read_text()
                time.sleep(0.2)
            await send_order(client, runs[0].id, repeats)
        until(lambda: notes.exists() and len(notes.read_text().splitlines()) >= 3)
        prefect.kill()
        until(lambda: len(notes.read_text().splitlines()) == len(repeats))  # the measuring goes on
        until(lambda: list(box.rglob("*.json")))
        assert lane.poll() is None, "it waits for the server"
        prefect.start()
        assert lane.wait(WITHIN_S) == 0, (tmp_path / "lane.log").read_text()
    finally:
        lane.kill()
        lane.wait()
    arrived, refused = [], []
    async with client_of(prefect.url) as client:
        receiver = RecordReceiver(client, store, refused.append, arrived.append)
        receiver.expect(runs[0].id, repeats)
        await receiver.collect()
        assert await client.read_artifacts() == []
    measured = notes.read_text().splitlines()
    assert sorted(measured) == sorted(" ".join(repeat.options()) for repeat in repeats), "each once"
    records, odd = store.records()
    assert len(records) == len(repeats) and not odd and not refused
    assert {record.verdict for record in records} == {Verdict.OK} and not list(box.rglob("*.json"))
