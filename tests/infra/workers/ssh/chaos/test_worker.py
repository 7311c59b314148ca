"""Jobs whose box, sshd or worker dies or is shared."""

import asyncio
import signal
from itertools import pairwise

import pytest

from tests.infra.workers.ssh.box_jobs import OWN_RUN, asks

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]

POLL_S = "0.5"


async def test_one_job_at_a_time_on_a_box(pool, machine):
    script = "echo on; sleep 2; echo off"
    runs = [await pool.start(f"r{n}", script=script) for n in range(3)]
    async with pool.worker():
        for run_id in runs:
            assert (await pool.end(run_id)).name == "Completed"
        turns = [[line.timestamp for line in await pool.logs(run) if line.name == "ssh.job"] for run in runs]
    begun = sorted(turns)
    assert all(before[-1] <= after[0] for before, after in pairwise(begun))


async def test_two_boxes_share_the_work_and_a_cut_one_is_waited_for(pool, two):
    hosts = [box.host for box in two]
    script = "echo on; sleep 8; echo off"
    runs = [await pool.start(f"r{n}", script=script, hosts=hosts) for n in range(2)]
    async with pool.worker():
        pids = [
            (
                await pool.until(
                    run,
                    lambda run: (
                        run.infrastructure_pid and run.state.is_pending() and len(run.infrastructure_pid) > 0
                    ),
                )
            ).infrastructure_pid
            for run in runs
        ]
        for run in runs:
            await pool.lines_when(run, bool)
        two[1].cut()
        await asyncio.sleep(45)  # longer than both the script and what a connection may be silent
        two[1].mend()
        for run in runs:
            assert (await pool.end(run)).name == "Completed"
            assert await pool.lines(run) == ["on", "off"]
        pids = {(await pool.run(run)).infrastructure_pid.partition("/")[0] for run in runs}
    assert pids == {f"root@{box.address}:22" for box in two}
    assert [box.jobs() for box in two] == [[], []]


async def test_sshd_and_worker_may_die_and_nothing_runs_twice(pool, machine, prefect):
    script = f"for i in $(seq 20); do echo $i; sleep 1; done; {asks(OWN_RUN)}"  # by the next worker's tunnel
    run_id = await pool.start("goes-on", script=script)
    worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
    try:
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 3)
        machine.restart_sshd()
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 8)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
        assert (await pool.end(run_id)).name == "Completed"
    finally:
        worker.kill()
        worker.wait()
    lines = await pool.lines(run_id)
    told = [*(str(n) for n in range(1, 21)), "200"]
    assert list(dict.fromkeys(lines)) == told  # some may come twice, none is lost
    assert len(lines) <= 30


@pytest.mark.parametrize("same_kernel", [False, True])
async def test_a_reboot_is_told(pool, two, same_kernel):
    run_id = await pool.start("rebooted", script="echo on; sleep 100")
    async with pool.worker():
        assert await pool.lines_when(run_id, bool)
        two[0].reboot(same_kernel)
        ended = await pool.end(run_id)
    assert ended.name == "Rebooted", ended.message
    assert two[0].jobs() == []


async def test_cancelling_stops_the_job_and_frees_the_box(pool, machine):
    runs, waits = await pool.start("runs", script="echo on; sleep 600"), None
    async with pool.worker():
        assert await pool.lines_when(runs, bool)
        waits = await pool.start("waits", script="true")
        await asyncio.sleep(3)
        await pool.cancel(waits)
        assert (await pool.end(waits)).name == "Cancelled"
        await pool.cancel(runs)
        assert (await pool.end(runs)).name == "Cancelled"
        assert machine.jobs() == []
        after = await pool.start("after", script="true")
        assert (await pool.end(after)).name == "Completed"


async def test_a_job_that_somebody_kills_is_told_and_nothing_of_it_runs_on(pool, kind, machine):
    run_id = await pool.start("killed", script="(setsid sleep 600 &); echo on; sleep 600")
    kill = {
        "containers": "docker kill $(docker ps -q)",
        "processes": "kill -9 $(cat /root/.prefect-ssh/prefect-*/root)",
    }
    async with pool.worker():
        assert await pool.lines_when(run_id, bool)
        machine.run(kill[kind], check=False)
        ended = await pool.end(run_id)
        assert (ended.name, ended.message) == ("Crashed", "The job ended with exit code 137.")
        assert machine.jobs() == [] and machine.run("pgrep sleep", check=False) == ""


async def test_who_watches_a_job_may_be_killed_and_the_job_goes_with_it(pool, machine):
    """The session that started it is gone, and a process of the box's own watches: it is killed, too."""
    run_id = await pool.start("unwatched", script="echo on; sleep 600")
    async with pool.worker():
        assert await pool.lines_when(run_id, bool)
        machine.run("pkill -KILL -f '[w]atch /root/.prefect-ssh/'")
        ended = await pool.end(run_id)
        assert ended.name == "Crashed" and "that watched the job" in ended.message
        assert machine.jobs() == []


async def test_a_box_that_somebody_else_uses_is_waited_for(pool, machine):
    """By whatever holds the lock of the box: a measurement by hand does."""
    machine.run(
        "mkdir -p -m 700 /root/.gridbench; setsid flock /root/.gridbench/box.lock sleep 14 >/dev/null 2>&1 &"
    )
    run_id = await pool.start("waits", script="echo on")
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
        said = [line.message for line in await pool.logs(run_id)]
    assert any("measures for somebody else" in line for line in said), said
