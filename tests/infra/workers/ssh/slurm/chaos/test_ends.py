"""Lanes on a real Slurm: each end has the name that it has on a box or in a container, and Slurm's own have theirs."""

import asyncio
import signal

import pytest

from tests.infra.workers.ssh.box_jobs import OWN_RUN, asks
from tests.infra.workers.ssh.slurm.chaos.conftest import on
from tests.infra.workers.worker_prefect import POLL_S

pytestmark = [
    pytest.mark.flaky(
        reruns=1, reason="Slurm, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]

LARGE = 'python3 -c "x = bytearray(900 << 20)"'
ENDS = {
    # name: job variables, state, words of its message
    "exits-0": ({"script": "echo fine"}, "Completed", "exit code 0"),
    "exits-9": ({"script": "echo oops >&2; exit 9"}, "Crashed", "exit code 9"),
    "memory": ({"command": LARGE}, "OutOfMemory", "memory_mib 200"),
    "late": ({"script": "sleep 100", "timeout_s": 10}, "TimedOut", "timeout_s 10"),
    "chatty": ({"script": "seq 1 1500; printf unfinished"}, "Completed", "exit code 0"),
    "quotes": ({"command": "sh -c 'echo \"$0\" $1' \"; rm -rf '/' & `id` $(id)\" 'a  b'"}, "Completed", "0"),
    "credentials": ({"script": "true", "env": {"AWS_SECRET_ACCESS_KEY": "x"}}, "Crashed", "no cloud cred"),
    "partition": (
        {"script": "true", "slurm": {"partition": "nothing"}},
        "Unschedulable",
        "invalid partition",
    ),
    "too-large": ({"script": "true", "memory_mib": 99999}, "Unschedulable", "can not be satisfied"),
    "too-many": ({"script": "true", "slurm": {"cpus": 99}}, "Unschedulable", "onfig"),
    "never": (
        {"script": "true", "slurm": {"partition": "brief"}},
        "Unschedulable",
        "timeout_s.",  # PartitionTimeLimit, or PartitionConfig before the scheduler has looked
    ),
    "account": ({"script": "true", "slurm": {"account": "none"}}, "Unschedulable", "nvalid account"),
    "python": ({"script": "true", "python": "/no/python"}, "Unfit", "python is /no/python"),
    "disk": ({"script": "true", "least_free_mib": 10**9}, "Unfit", "less than least_free_mib"),
}


async def test_every_job_ends_in_the_right_state(pool, machines):
    runs = {name: await pool.start(name, **ENDS[name][0]) for name in ENDS}
    async with pool.worker():
        states = {name: await pool.end(run_id) for name, run_id in runs.items()}
        chatty, quotes = await pool.lines(runs["chatty"]), await pool.lines(runs["quotes"])
    assert {name: state.name for name, state in states.items()} == {name: ENDS[name][1] for name in ENDS}
    for name in ENDS:
        assert ENDS[name][2] in states[name].message, (name, states[name].message)
    assert chatty == [*(str(n) for n in range(1, 1501)), "unfinished"]
    assert quotes == ["; rm -rf '/' & `id` $(id) a b"]
    assert machines.as_user("ls ~/.prefect-ssh/*/env ~/.prefect-ssh/*/profiles.toml", check=False) == ""


DEATHS = {
    # name: what happens to the job NAME on node NODE, state, cause, words of its message
    "preempted": ("{urgent} --nodelist={node}", "Preempted", "taken-away", "another of higher priority"),
    "administrator": ("scancel --name={name}", "Cancelled", "cancelled", "by an administrator, outside of"),
    "user": ("{ada} scancel --name={name}", "Cancelled", "cancelled", "by user 6001, outside of Prefect"),
    "paused": ("scontrol suspend {job}", "Preempted", "taken-away", "has paused job"),
    "limit": ("scontrol update jobid={job} timelimit=1", "TimedOut", None, "at its time limit"),
}
ADA = "cd /home/ada; setpriv --reuid=6001 --regid=100 --clear-groups"
URGENT = f"{ADA} sbatch --partition=urgent --cpus-per-task=4 --output=/dev/null --wrap='sleep 2'"


@pytest.mark.parametrize("death", DEATHS)
async def test_what_slurm_and_people_do_to_a_job_is_told(pool, machines, death):
    command, state, cause, words = DEATHS[death]
    run_id = await pool.start(death, script="echo on; sleep 600")
    async with pool.worker():
        assert await pool.lines_when(run_id, bool) == ["on"]
        job, name, node = machines.login.run("squeue --noheader --format='%i %j %N'").split()
        machines.login.run(command.format(job=job, name=name, node=node, urgent=URGENT, ada=ADA))
        ended = await pool.end(run_id)
    run = await pool.run(run_id)
    assert (ended.name, words in ended.message) == (state, True), ended.message
    assert cause is None or run.labels["gridbench.outcome"] == cause


async def test_a_node_that_fails_takes_its_job_along_and_nothing_runs_twice(pool, machines):
    run_id = await pool.start("fails", script="echo on; sleep 600")
    async with pool.worker():
        assert await pool.lines_when(run_id, bool)
        node = machines.login.run("squeue --noheader --format=%N")
        machines.fail(node)
        ended = await pool.end(run_id)
    assert (ended.name, node in ended.message) == ("NodeLost", True), ended.message
    assert await pool.lines(run_id) == ["on"]


WHOLE = {"script": "echo on; sleep 600", "slurm": {"exclusive": True}, "memory_mib": None}


async def test_a_queue_is_waited_for_so_long_and_what_waits_is_told(pool, machines):
    for node in machines.nodes:
        machines.as_user(f"cd; sbatch --nodelist={node} --exclusive --output=/dev/null --wrap='sleep 600'")
    run_id = await pool.start("waits", script="true", wait_s=15)
    async with pool.worker():
        ended = await pool.end(run_id)
        logs = [line.message for line in await pool.logs(run_id)]
    machines.mend()  # a job that is cancelled is in the queue until its node is clean
    assert (ended.name, "in wait_s 15" in ended.message) == ("NoCapacity", True), ended.message
    assert any("waits: " in line for line in logs), logs


async def test_cancelling_takes_a_job_out_of_the_queue_and_off_its_node(pool, machines):
    runs = [await pool.start(f"runs-{node}", **WHOLE) for node in machines.nodes]
    async with pool.worker():
        for run_id in runs:
            assert await pool.lines_when(run_id, bool) == ["on"]
        waits = await pool.start("waits", **WHOLE)
        while len(machines.jobs()) <= len(runs):
            await asyncio.sleep(0.5)
        for number, run_id in enumerate([waits, *runs]):
            await pool.cancel(run_id)
            assert (await pool.end(run_id)).name == "Cancelled"
            assert len(machines.jobs()) == len(runs) - number
        assert await pool.lines(waits) == []


async def test_sshd_and_worker_may_die_and_nothing_runs_twice(pool, machines, prefect):
    script = f"for i in $(seq 20); do echo $i; sleep 1; done; {asks(OWN_RUN)}"  # by the next worker's tunnel
    run_id = await pool.start("goes-on", script=script)
    worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
    try:
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 3)
        machines.login.restart_sshd()
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 8)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
        assert (await pool.end(run_id)).name == "Completed"
    finally:
        worker.kill()
        worker.wait()
    lines = await pool.lines(run_id)
    assert list(dict.fromkeys(lines)) == [*(str(n) for n in range(1, 21)), "200"]
    assert machines.login.run("sacct -n -X -o JobName%60 -S now-1hour").count(str(run_id)) == 1


async def test_a_job_reaches_its_own_run_from_a_node_that_reaches_nothing_else(pool, machines):
    script = f"{asks(OWN_RUN)}; {asks('/variables/name/any')}; {asks('/health', token=False)}; hostname"
    run_id = await pool.start("asks", script=script)
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
        lines = await pool.lines(run_id)
    assert lines[:3] == ["200", "403", "200"]
    assert lines[3] in machines.nodes


async def test_a_node_that_may_not_log_in_at_the_login_node_is_told(pool, machines):
    run_id = await pool.start("unreached", script="true", slurm={"login": "elsewhere", "exclusive": False})
    async with pool.worker():
        ended = await pool.end(run_id)
    assert (ended.name, "set slurm.login" in ended.message) == ("Unfit", True), ended.message


async def test_without_books_the_jobs_own_word_is_enough(prefect, monkeypatch):
    from tests.emulators.slurm.cluster import cluster

    monkeypatch.setenv("SSH_WORKER_POLL_S", POLL_S)
    with prefect.settings(), cluster(1, remembered_s=2) as small:
        pool = await on(prefect, small)
        runs = [await pool.start(f"r{code}", script=f"exit {code}") for code in (0, 9)]
        late = await pool.start("gone", script="sleep 6; echo on; exit 3")
        async with pool.worker():
            assert [(await pool.end(run)).name for run in runs] == ["Completed", "Crashed"]
            await pool.until(late, lambda run: run.infrastructure_pid)
            await asyncio.sleep(2)
        show = "scontrol show job 3 2>&1"  # the controller forgets it while nobody looks
        small.until(lambda: "Invalid job id" in small.login.run(show, check=False))
        async with pool.worker("w2"):
            ended = await pool.end(late)
        assert (ended.name, "exit code 3" in ended.message) == ("Crashed", True), ended.message
