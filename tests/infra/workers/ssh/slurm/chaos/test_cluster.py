import asyncio

import pytest

from tests.emulators.slurm.cluster import cluster
from tests.infra.workers.ssh.box_jobs import OWN_RUN, asks
from tests.infra.workers.ssh.slurm.chaos.conftest import on
from tests.infra.workers.worker_prefect import POLL_S

pytestmark = [
    pytest.mark.flaky(
        reruns=1, reason="Slurm, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]


async def test_a_job_reaches_its_own_run_from_a_node_that_reaches_nothing_else(pool, machines):
    script = f"{asks(OWN_RUN)}; {asks('/variables/name/any')}; {asks('/health', token=False)}; hostname"
    run_id = await pool.start("asks", script=script)
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
        lines = await pool.lines(run_id)
    assert lines[:3] == ["200", "403", "200"]
    assert lines[3] in machines.nodes


async def test_a_node_that_may_not_log_in_at_the_login_node_is_reported(pool, machines):
    run_id = await pool.start("unreached", script="true", slurm={"login": "elsewhere", "exclusive": False})
    async with pool.worker():
        ended = await pool.end(run_id)
    assert (ended.name, "set slurm.login" in ended.message) == ("Unfit", True), ended.message


async def test_without_books_the_jobs_own_word_is_enough(prefect, monkeypatch):
    monkeypatch.setenv("SSH_WORKER_POLL_S", POLL_S)
    with prefect.settings(), cluster(1, remembered_s=2) as small:
        pool = await on(prefect, small)
        runs = [await pool.start(f"r{code}", script=f"exit {code}") for code in (0, 9)]
        late = await pool.start("gone", script="sleep 6; echo on; exit 3")
        async with pool.worker():
            assert [(await pool.end(run)).name for run in runs] == ["Completed", "Crashed"]
            await pool.until(late, lambda run: run.infrastructure_pid)
            await asyncio.sleep(2)
        show = "scontrol show job 3 2>&1"  # the controller forgets it between two looks
        small.until(lambda: "Invalid job id" in small.login.run(show, check=False))
        async with pool.worker("w2"):
            ended = await pool.end(late)
        assert (ended.name, "exit code 3" in ended.message) == ("Crashed", True), ended.message
