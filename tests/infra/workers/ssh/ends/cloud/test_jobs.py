import pytest

from tests.emulators.boxes import keygen
from tests.infra.workers.ssh.ends.ends import JOBS, NOT_LET_IN
from tests.infra.workers.ssh.ends.lanes import CONTAINERS
from tests.infra.workers.ssh.ends.told import end_of, faults

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, Slurm, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]

LATE = {
    "memory",
    "late",
    "unpulled",
    "no-key",
    "not-let-in",
}  # seconds each: apart, for who runs two at a time


async def ends(pool, lanes, tmp_path, *, late):
    """Run the jobs of a kind, and compare each end with its stated one."""
    keygen(tmp_path / "key")
    runs = {}
    for name, end in JOBS.items():
        if lanes.kind in end.said and (name in LATE) == late:
            asked = end.asked(lanes)
            if end.host.get("key") == NOT_LET_IN:
                asked["hosts"] = [lanes.host | {"key": str(tmp_path / "key")}]
            if name == "unpulled" and lanes.kind != CONTAINERS:
                asked["python"] = lanes.poor_python()
            runs[name] = await pool.start(name, **asked)
    async with pool.worker():
        for run_id in runs.values():
            await end_of(pool, run_id)
    told = [fault for name, run_id in runs.items() for fault in await faults(pool, lanes, run_id, JOBS[name])]
    assert told == []


async def test_every_job_ends_in_the_right_state(pool, lanes, tmp_path):
    await ends(pool, lanes, tmp_path, late=False)


async def test_a_job_that_is_ended_and_one_that_can_not_begin_say_why(pool, lanes, tmp_path):
    await ends(pool, lanes, tmp_path, late=True)


async def test_the_output_of_a_job_is_complete_and_its_command_is_quoted(pool, lanes):
    words = "sh -c 'echo \"$0\" $1' \"; rm -rf '/' & `id` $(id)\" 'a  b'"
    chatty = await pool.start("chatty", script="seq 1 1500; printf unfinished")
    quotes = await pool.start("quotes", command=words)
    async with pool.worker():
        assert [(await pool.end(run_id)).name for run_id in (chatty, quotes)] == ["Completed"] * 2
        assert await pool.lines(chatty) == [*(str(n) for n in range(1, 1501)), "unfinished"]
        assert await pool.lines(quotes) == ["; rm -rf '/' & `id` $(id) a b"]
