import asyncio
import signal

import pytest

from tests.emulators import containers
from tests.infra.workers.batch.worker_checks import submitted

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


async def test_trouble_on_the_way_loses_nothing(pool, aws):
    aws.control.throttle("*", every=3)
    aws.control.forget_polls = 5
    aws.control.throttle(
        "SubmitJob", limit=1, answer="hang_up", done=True
    )  # submitted, and the answer is lost
    runs = [await pool.start(f"r{n}", script="echo on; sleep 2; echo off") for n in range(4)]
    async with pool.worker():
        for run_id in runs:
            await pool.until(run_id, lambda run: run.infrastructure_pid)
        with aws.control.lost_network():
            await asyncio.sleep(1)
        for run_id in runs:
            assert (await pool.end(run_id)).name == "Completed"
            assert await pool.lines_when(run_id, lambda lines: len(lines) >= 2) == ["on", "off"]
    jobs = aws.client("batch").list_jobs(jobQueue="g5-xlarge-0", jobStatus="SUCCEEDED")["jobSummaryList"]
    assert len(jobs) == 4


async def test_a_killed_worker_leaves_nothing_undone(pool, prefect, aws):
    script = "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 1; done"
    run_id = await pool.start("long", script=script)
    first = prefect.worker_process(pool.name, "one")
    await pool.until(run_id, lambda run: run.infrastructure_pid)
    await pool.lines_when(run_id, lambda lines: len(lines) >= 2)
    first.kill()
    first.wait()
    async with pool.worker("one"):
        assert (await pool.end(run_id)).name == "Completed"
        lines = await pool.lines_when(run_id, lambda lines: len(lines) >= 8)
    assert lines == [f"line {n}" for n in range(1, 9)]
    assert len(submitted(aws)) == 1


async def test_a_stopped_worker_lists_running_jobs_and_another_worker_takes_over(pool, prefect, aws):
    run_id = await pool.start("long", script="for n in 1 2 3 4 5 6 7 8 9; do echo $n; sleep 1; done")
    first = prefect.worker_process(pool.name, "one")
    job_id = (await pool.until(run_id, lambda run: run.infrastructure_pid)).infrastructure_pid
    await pool.lines_when(run_id, lambda lines: len(lines) >= 2)
    first.send_signal(signal.SIGTERM)
    first.wait(60)
    said = (prefect.folder / "one.log").read_text()
    assert "These AWS Batch jobs continue" in said and job_id in said
    async with pool.worker("two"):  # another name: it need not wait until the first one counts as gone
        assert (await pool.end(run_id)).name == "Completed"
        lines = await pool.lines_when(run_id, lambda lines: len(lines) >= 9)
    assert lines == [str(n) for n in range(1, 10)]
    assert len(submitted(aws)) == 1


async def test_two_workers_share_a_pool(pool, aws):
    until_told = "echo once; until [ -e /tmp/told ]; do sleep 0.2; done"
    async with pool.worker("one") as one:
        async with pool.worker("two") as two:
            long = [await pool.start(f"l{n}", script=until_told) for n in range(2)]
            quick = [await pool.start(f"q{n}", script="echo once") for n in range(3)]
            jobs = [(await pool.until(run_id, lambda run: run.infrastructure_pid)) for run_id in long]
            followed = [{run for run in long if worker.follows.get(run)} for worker in (one, two)]
            assert not followed[0] & followed[1] and followed[0] | followed[1] == set(long)
            for run_id in quick:
                assert (await pool.end(run_id)).name == "Completed"
        for run_id, job in zip(long, jobs, strict=True):
            assert await pool.lines_when(run_id, bool) == ["once"]
            tell(job.infrastructure_pid)
            assert (await pool.end(run_id)).name == "Completed"
        for run_id in quick + long:
            assert await pool.lines_when(run_id, bool) == ["once"]
    assert len(submitted(aws)) == len(set(submitted(aws))) == 5


def tell(job_id):
    containers.podman("exec", f"batch-{job_id}-1", "touch", "/tmp/told")


async def test_a_restarted_prefect_server_loses_nothing(pool, prefect, aws):
    script = "for n in 1 2 3 4 5 6; do echo $n; sleep 1; done"
    run_id, bad_id = (
        await pool.start("long", script=script),
        await pool.start("bad", script="sleep 4; exit 3"),
    )
    async with pool.worker():
        for one in (run_id, bad_id):
            await pool.until(one, lambda run: run.infrastructure_pid)
        prefect.kill()
        await asyncio.sleep(8)
        prefect.launch()
        await asyncio.to_thread(prefect.wait)
        assert (await pool.end(run_id)).name == "Completed"
        assert (await pool.end(bad_id)).message.startswith("The container ended with exit code 3")
        lines = await pool.lines_when(run_id, lambda lines: len(lines) >= 6)
        later = await pool.start("later", script="echo later")
        assert (await pool.end(later)).name == "Completed"
    assert lines == [str(n) for n in range(1, 7)]
    assert len(submitted(aws)) == 3
