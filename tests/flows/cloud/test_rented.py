"""`gridbench run` on rented boxes: a stand-in of Lambda's API whose instances are real SSH servers with containers."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from infra.lambda_cloud.janitor import sweep
from tasks.dispatch.job_notes import BOOT, REST, jobs_of
from tasks.gather import judged
from tasks.planning.hardware import DEPLOYMENTS
from tasks.store.store import Store
from tests.emulators.lambda_cloud.control import Control
from tests.emulators.lambda_cloud.quick import client, nothing_left
from tests.emulators.lambda_cloud.server import lambda_cloud
from tests.emulators.lambda_cloud.ssh_boxes import SshBoxes
from tests.emulators.lane import with_workload
from tests.emulators.prefect_api import with_tables
from tests.flows.conftest import CLOUD
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]

HERE = Path(__file__).parents[1]
MEASURED = {Verdict.OK, Verdict.NOISY, Verdict.IMPRECISE, Verdict.UNSTEADY}  # this machine is no quiet one
RENTED = """
title: An A10 that is none
pool: ssh
device: cpu
threads: 1
price: {provider: lambda, instance: gpu_1x_a10}
rent: {provider: lambda, capacity_s: 300, boot_s: 300, most_hours: 1}
start_s: 20
start_within_s: 400
job_variables:
  image: "{{ prefect.variables.gridbench_image_cpu }}"
  pull: never
  shared_memory_mib: 256
  timeout_s: 1200
  lost_s: 60
"""


@pytest.fixture(scope="module")
def image(bench_image):
    """The image built here, and naps to measure in it."""
    return with_workload(bench_image, HERE / "workloads" / "nap.py")


@pytest.fixture
def cloud():
    """An empty account; nothing may be left in it."""
    control = Control(capacity={("gpu_1x_a10", "us-east-1"): 4})
    with lambda_cloud(control, SshBoxes()) as cloud:
        yield cloud
        assert nothing_left(cloud), "every box and every key is given back, whatever the test did"


class Command:
    """`gridbench`, in a folder of its own with a stack of its own."""

    def __init__(self, folder, cloud, image):
        self.folder = folder
        self.environment = os.environ | {
            "GRIDBENCH_DEPLOYMENTS": str(folder / "deployments"),
            "GRIDBENCH_WORKLOADS": str(HERE / "workloads"),
            "GRIDBENCH_RESULTS": str(folder / "results"),
            "GRIDBENCH_STATE": str(with_tables(folder / "state")),
            "GRIDBENCH_IMAGE_CPU": image,
            "LAMBDA_API_KEY": cloud.control.key,
            "LAMBDA_API_URL": cloud.url,
            "COLUMNS": "120",
        }
        self.environment.pop("PREFECT_API_URL", None)
        self.processes = []

    def start(self, *words):
        """Begins a command, in the background."""
        out = (self.folder / f"{len(self.processes)}.log").open("wb")
        command = [str(Path(sys.executable).with_name("gridbench")), *words]
        self.processes.append(subprocess.Popen(command, env=self.environment, stdout=out, stderr=out))
        return self.processes[-1]

    def __call__(self, *words):
        """Runs a command to its end; its exit code and what it printed."""
        code = self.start(*words).wait(1200)
        return code, (self.folder / f"{len(self.processes) - 1}.log").read_text()

    def records(self, at_least=1, within_s=600):
        """Waits until so many records have come; returns the run's store."""
        deadline = time.monotonic() + within_s
        while len(found := list((self.folder / "results").glob("*/records/**/*.json"))) < at_least:
            assert time.monotonic() < deadline, self.words()
            time.sleep(0.2)
        return Store.open(self.folder / "results", found[0].relative_to(self.folder / "results").parts[0])

    def words(self):
        """What all commands have printed."""
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("*.log")))

    def cut_the_power(self):
        """Everything that these commands have started is gone at once, and none of it can do anything more."""
        ours = [*self._ours()]
        for process in ours:
            process.suspend()
        for process in [*ours, *self._ours()]:
            process.kill()

    def _ours(self):
        for process in psutil.process_iter():
            try:
                if process.environ().get("GRIDBENCH_RESULTS") == str(self.folder / "results"):
                    yield process
            except psutil.Error:
                continue


@pytest.fixture
def gridbench(tmp_path, cloud, image):
    shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")
    (tmp_path / "deployments/suites/rented.toml").write_text(CLOUD.replace("[2, 4, 6]", "[2, 4]"))
    (tmp_path / "deployments/hardware/lambda-cpu.yaml").write_text(RENTED)
    command = Command(tmp_path, cloud, image)
    yield command
    command.cut_the_power()


def run_of(gridbench):
    """The one run's store, its records, and what each machine was billed for."""
    store = gridbench.records()
    records, odd = store.records()
    assert not odd
    return store, records, {bill.hardware: bill for bill in judged(records, store).bills}


def paid(store, hardware):
    """What each box that was rented for a machine has cost."""
    return [job.usd for job in jobs_of(store) if job.hardware == hardware and job.usd is not None]


def test_boxes_are_rented_measured_on_billed_compared_and_given_back(gridbench, cloud):
    code, text = gridbench("run", "rented", "--on", "lambda-cpu", "--boxes", "2", "--budget-usd", "1")
    assert code == 0, text
    store, records, bills = run_of(gridbench)
    assert len(records) == 8 and {r.verdict for r in records} <= MEASURED
    assert [*bills] == ["lambda-cpu.1", "lambda-cpu.2"] and len(cloud.account.launched) == 2
    for name, bill in bills.items():
        (usd,) = paid(store, name)
        assert bill.usd == pytest.approx(usd) == pytest.approx(bill.billed_s / 3600 * 1.29)
        assert {BOOT, REST, "idle"} <= dict(bill.parts_s).keys() and round(bill.billed_s, 6) % 60 == 0
    results = json.loads((store.folder / "benchmark_results.json").read_text())
    fine = [{r.case for r in records if r.hardware == name and r.verdict is Verdict.OK} for name in bills]
    told = [found["shape"] for found in results["siblings"]]
    assert told == (["lambda-cpu"] if set.intersection(*fine) else []), "compared where both were undisturbed"
    assert BOOT in (store.folder / "report.html").read_text()


@pytest.mark.chaos
def test_a_box_that_lambda_takes_back_is_replaced_and_nothing_is_measured_twice(gridbench, cloud):
    running = gridbench.start("run", "rented", "--on", "lambda-cpu")
    gridbench.records(at_least=2)
    cloud.account.preempt(cloud.account.launched[0])
    assert running.wait(1200) == 0, gridbench.words()
    store, records, bills = run_of(gridbench)
    assert len(records) == 4 and {r.verdict for r in records} <= MEASURED
    boxes = paid(store, "lambda-cpu")
    assert len(boxes) == len(cloud.account.launched) == 2
    assert bills["lambda-cpu"].usd == pytest.approx(sum(boxes)), "both boxes were paid for"
    asked = [note["repeats"] for note in json.loads((store.folder / "jobs.json").read_text())]
    assert max(asked) == 4 and sorted(asked)[-2] < 4, "what had come is not asked for again"


@pytest.mark.chaos
def test_ctrl_c_stops_the_container_and_gives_the_box_back(gridbench, cloud):
    running = gridbench.start("run", "rented", "--on", "lambda-cpu")
    gridbench.records()
    running.send_signal(signal.SIGINT)
    assert running.wait(600) == 130, gridbench.words()
    deadline = time.monotonic() + 120
    while not nothing_left(cloud):
        assert time.monotonic() < deadline, gridbench.words()
        time.sleep(0.2)
    assert run_of(gridbench)[1], "what had come is kept"


@pytest.mark.chaos
def test_after_a_power_cut_the_box_is_shown_until_the_janitor_gives_it_back_at_its_deadline(gridbench, cloud):
    gridbench.start("run", "rented", "--on", "lambda-cpu")
    gridbench.records()
    gridbench.cut_the_power()
    (box,) = cloud.account.running()
    code, text = gridbench("rented", "--json")
    (row,) = json.loads(text)
    assert (code, row["id"], row["hardware"], row["overdue"]) == (0, box.id, "lambda-cpu", False)
    assert row["cost_usd"] > 0
    assert gridbench("janitor") == (0, "nothing of ours is overdue at Lambda Cloud\n")
    due = datetime.fromisoformat(row["until"]) + timedelta(minutes=1)
    assert due - datetime.now(UTC) < timedelta(hours=2)

    async def later(now):
        async with client(cloud) as api:
            return await sweep(api, now, print)

    assert asyncio.run(later(due)).returned == (box.id,)
    assert asyncio.run(later(due + timedelta(hours=2))).removed_keys
