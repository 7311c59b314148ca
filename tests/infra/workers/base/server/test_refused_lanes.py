import json

import pytest
from prefect.workers.process import ProcessWorker

from infra.workers.batch.worker import AwsBatchWorker
from infra.workers.kubernetes.worker import KubernetesJobsWorker
from infra.workers.ssh.worker import SshWorker
from tasks.dispatch.flow_runs import lane_jobs
from tasks.dispatch.job_notes import FILE, spent_usd
from tasks.dispatch.lane import STILLBORN
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from tests.infra.workers.worker_prefect import Pool
from tests.tasks.dispatch.dispatched import Run
from workloads.harness.records.record import Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

KEY = {"env": {"PREFECT_API_KEY": "x"}}
REFUSED = {
    # kind of pool: its worker, job variables that it refuses, words of its sentence
    "kubernetes": (KubernetesJobsWorker, {"image": "i:1"} | KEY, "never sent in plain text"),
    "batch": (AwsBatchWorker, {"image": "i:1", "job_queue": "q"}, "region is not set"),
    "ssh": (SshWorker, {"image": "i:1", "hosts": []}, "hosts"),
    "process": (ProcessWorker, {"working_dir": "/nowhere"}, "could not start"),
}


@pytest.fixture
def dear(tmp_path):
    """A plan of one lane whose machine costs 50 USD before and after its job."""
    plan = make_plan(RunRequest(suite="quick", hardware=["local-cpu-1"], repeats=1, seed=7))
    price = plan.hardware[0].price.model_copy(update={"usd_per_hour": 88.0})
    changes = {"price": price, "start_s": 1445.0, "idle_s": 600.0}
    return plan.model_copy(update={"hardware": (plan.hardware[0].model_copy(update=changes),)})


def store_of(plan, pool, variables, folder):
    lane = plan.hardware[0].model_copy(update={"pool": pool.name, "job_variables": variables})
    return Store.create(folder, plan.model_copy(update={"hardware": (lane,), "run": f"run-{pool.name}"}))


async def refused(store, words, budget_usd):
    """Run a store whose lane jobs are refused; every repeat can be retried and gives the reason. Return the
    jobs.
    """
    async with Run(store, budget_usd=budget_usd, poll_s=0.5) as run:
        records = await run.ended()
        assert {record.verdict for record in records} == {Verdict.CAPACITY}, records[0].reasons
        assert all(words in record.reasons[0] for record in records), records[0].reasons
        assert not [sentence for sentence in run.said if "budget" in sentence or "measured when" in sentence]
        assert run.lanes.spent_usd() == 0
        return await lane_jobs(run.lanes._client, store.plan.run)


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_lane_that_is_refused_ends_after_the_second_time_and_costs_nothing(
    prefect, dear, tmp_path, kind
):
    worker, variables, words = REFUSED[kind]
    with prefect.settings():
        pool = await Pool.make(prefect, worker, flow="lane")
        store = store_of(dear, pool, variables, tmp_path / "results")
        async with pool.worker():
            jobs = await refused(store, words, budget_usd=1.0)
            if kind == "ssh":  # the quickest
                again = await refused(Store.open(tmp_path / "results", store.plan.run), words, budget_usd=1.0)
                assert len(again) == 2 * STILLBORN, "a resume asks for all of them again"
                said = [line.message for line in await pool.logs(jobs[0].id)]
                assert jobs[0].state.message in said, "a refusal is its sentence"
                assert not [text for text in said if "Traceback" in text]
    assert [job.run_count for job in jobs] == [0] * STILLBORN
    assert all(job.start_time == job.end_time for job in jobs), "the server says so of what never ran"
    notes = json.loads((store.folder / FILE).read_text())
    assert {(note["billed_s"], note["started_at"]) for note in notes} <= {(0.0, None)} and spent_usd(
        store
    ) == 0
