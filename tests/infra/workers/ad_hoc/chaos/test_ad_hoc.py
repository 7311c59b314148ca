import os
import subprocess
import sys

import pytest

from tests.infra.workers.ad_hoc.submit import ROOT

pytestmark = pytest.mark.timeout(900)


async def test_an_ad_hoc_run_survives_its_worker(backend, tmp_path):
    pool = backend.pool
    command = [sys.executable, "-m", "tests.infra.workers.ad_hoc.submit", pool.kind.type, pool.name]
    with (tmp_path / "submit.log").open("wb") as log:
        first = subprocess.Popen([*command, backend.python], cwd=ROOT, env=os.environ, stdout=log, stderr=log)
    try:
        run_id = await backend.only_run()
        run = await pool.until(run_id, lambda run: run.state.is_running())
    finally:
        first.kill()
        first.wait()
    job_id = run.infrastructure_pid
    async with pool.worker("next"):
        await pool.until(run_id, lambda run: run.labels.get("prefect.worker.name") == "next")
        async with pool.prefect.client() as client:
            await client.update_flow_run_labels(run_id, {"go": True})
        state = await pool.end(run_id)
    assert state.is_crashed() and "exit code 137" in state.message, state
    run = await pool.run(run_id)
    assert (run.infrastructure_pid, run.deployment_id) == (job_id, None)
    assert run.labels["gridbench.outcome"] in ("crashed", "out-of-memory")
