"""Ends of each kind of lane by deaths, disks, networks, and other people."""

import asyncio
import signal

import pytest

from tests.infra.workers.ssh.box_jobs import OWN_RUN, asks
from tests.infra.workers.ssh.ends.ends import DEATHS, STATES
from tests.infra.workers.ssh.ends.lanes import KINDS, SLURM, wait_for
from tests.infra.workers.ssh.ends.told import end_of, faults
from tests.infra.workers.worker_prefect import POLL_S

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, Slurm, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]
EACH = [(name, kind) for name, death in DEATHS.items() for kind in KINDS if kind in death.said]
SILENT_S = 45  # longer than the script, and than the limit of a silent connection


@pytest.mark.parametrize(("name", "kind"), EACH, ids=[f"{kind}-{name}" for name, kind in EACH])
async def test_the_death_of_a_job_is_reported_and_none_of_its_processes_stays(pool, lanes, name):
    death = DEATHS[name]
    run_id = await pool.start(name, **death.asked(lanes))
    async with pool.worker():
        assert await pool.lines_when(run_id, bool)
        await death.happens(pool, lanes, run_id)
        await end_of(pool, run_id)
        lanes.connect()
        wait_for(lambda: lanes.jobs() == [])
    assert await faults(pool, lanes, run_id, death) == []
    first, *others = await pool.lines(run_id)
    assert first == "on" and "on" not in others  # Slurm says there, too, that it ends a job


async def test_a_job_waits_for_a_box_in_use_up_to_its_limit(pool, lanes):
    lanes.occupy()
    run_id = await pool.start("waits", **STATES["waits"].asked(lanes))
    async with pool.worker():
        await end_of(pool, run_id)
    lanes.leave()
    assert await faults(pool, lanes, run_id, STATES["waits"]) == []


async def until_it_waits(pool, run_id):
    while not any(
        "for somebody else" in line.message or " waits: " in line.message for line in await pool.logs(run_id)
    ):
        await asyncio.sleep(0.3)


async def test_a_job_waits_for_a_box_in_use(pool, lanes):
    lanes.occupy()
    run_id = await pool.start("waited", **STATES["waited"].asked(lanes))
    async with pool.worker():
        await until_it_waits(pool, run_id)
        lanes.leave()
        await end_of(pool, run_id)
        assert await pool.lines_when(run_id, bool) == ["on"]
    assert await faults(pool, lanes, run_id, STATES["waited"]) == []


async def test_cancelling_a_waiting_job_starts_nothing(pool, lanes):
    lanes.occupy()
    run_id = await pool.start("cancelled-before", **STATES["cancelled-before"].asked(lanes))
    async with pool.worker():
        await until_it_waits(pool, run_id)
        await pool.cancel(run_id)
        await end_of(pool, run_id)
        assert not [name for name in lanes.jobs() if str(run_id) in name]
    lanes.leave()
    assert await faults(pool, lanes, run_id, STATES["cancelled-before"]) == []
    assert await pool.lines(run_id) == []


async def test_a_full_disk_at_the_start_is_reported(pool, lanes):
    lanes.own_disk()
    lanes.fill_disk()
    run_id = await pool.start("full-before", **STATES["full-before"].asked(lanes))
    async with pool.worker():
        await end_of(pool, run_id)
    assert await faults(pool, lanes, run_id, STATES["full-before"]) == []


async def test_a_disk_that_fills_while_a_job_runs_does_not_change_its_end(pool, lanes):
    lanes.own_disk()
    run_id = await pool.start("full", **STATES["full"].asked(lanes))
    async with pool.worker():
        assert await pool.lines_when(run_id, bool) == ["on"]
        lanes.fill_disk()
        await end_of(pool, run_id)
    assert await faults(pool, lanes, run_id, STATES["full"]) == []


async def test_sshd_and_worker_can_die_and_nothing_runs_twice(pool, lanes, prefect):
    script = f"for i in $(seq 20); do echo $i; sleep 1; done; {asks(OWN_RUN)}"  # by the next worker's tunnel
    run_id = await pool.start("sessions", script=script)
    worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
    try:
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 3)
        lanes.restart_sshd()
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 8)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
        await end_of(pool, run_id)
    finally:
        worker.kill()
        worker.wait()
    assert await faults(pool, lanes, run_id, STATES["sessions"]) == []
    lines = await pool.lines(run_id)
    assert list(dict.fromkeys(lines)) == [*(str(n) for n in range(1, 21)), "200"]  # none is lost
    assert len(lines) <= 30  # some can come twice
    if lanes.kind == SLURM:
        listed = lanes.cluster.login.run("sacct -n -X -o JobName%60 -S now-1hour")
        assert listed.count(str(run_id)) == 1


async def test_a_cut_network_is_waited_for(pool, lanes):
    run_id = await pool.start("cut", **STATES["cut"].asked(lanes))
    async with pool.worker():
        assert await pool.lines_when(run_id, bool) == ["on"]
        lanes.cut()
        await asyncio.sleep(SILENT_S)
        lanes.connect()
        await end_of(pool, run_id)
        assert await pool.lines_when(run_id, lambda lines: len(lines) > 1) == ["on", "off"]
    assert await faults(pool, lanes, run_id, STATES["cut"]) == []
