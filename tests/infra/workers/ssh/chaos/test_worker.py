from itertools import pairwise

import pytest

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]


async def test_one_job_at_a_time_on_a_box(pool, machine):
    script = "echo on; sleep 2; echo off"
    runs = [await pool.start(f"r{n}", script=script) for n in range(3)]
    async with pool.worker():
        for run_id in runs:
            assert (await pool.end(run_id)).name == "Completed"
        turns = [[line.timestamp for line in await pool.logs(run) if line.name == "ssh.job"] for run in runs]
    begun = sorted(turns)
    assert all(before[-1] <= after[0] for before, after in pairwise(begun))


async def test_two_boxes_share_the_work(pool, two):
    hosts = [box.host for box in two]
    runs = [await pool.start(f"r{n}", script="echo on; sleep 8; echo off", hosts=hosts) for n in range(2)]
    async with pool.worker():
        for run in runs:
            assert (await pool.end(run)).name == "Completed"
            assert await pool.lines(run) == ["on", "off"]
        pids = {(await pool.run(run)).infrastructure_pid.partition("/")[0] for run in runs}
    assert pids == {f"root@{box.address}:22" for box in two}
    assert [box.jobs() for box in two] == [[], []]
