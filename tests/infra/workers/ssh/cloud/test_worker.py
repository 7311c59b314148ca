"""The ssh worker against a real Prefect server and boxes with a real sshd and real containers."""

import asyncio
import signal
from itertools import pairwise

import pytest

from infra.workers.ssh.worker import SshWorker
from tests.emulators.boxes import boxes, keygen
from tests.infra.workers.worker_prefect import Pool, Prefect

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]
POLL_S = "0.5"


@pytest.fixture(scope="module")
def prefect(tmp_path_factory):
    server = Prefect(tmp_path_factory.mktemp("prefect"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def two():
    with boxes(2) as made:
        yield made


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setenv("SSH_WORKER_POLL_S", POLL_S)
    monkeypatch.setenv("SSH_WORKER_FLUSH_S", "0.3")


@pytest.fixture
def box(two):
    """One box with nothing on it, before and after."""
    assert two[0].containers() == []
    yield two[0]
    assert two[0].containers() == []


@pytest.fixture
async def pool(prefect, two, base_image):
    with prefect.settings():
        yield await Pool.make(
            prefect, SshWorker, hosts=[two[0].host], image=base_image, least_free_mib=1, wait_s=120
        )


ENDS = {
    # name: job variables, state, words of its message
    "exits-0": ({"script": "echo fine"}, "Completed", "exit code 0"),
    "exits-9": ({"script": "echo oops >&2; exit 9"}, "Crashed", "exit code 9"),
    "memory": (
        {"command": 'python3 -c "x = bytearray(600 << 20)"', "memory_mib": 100},
        "OutOfMemory",
        "memory_mib 100",
    ),
    "late": ({"script": "sleep 100", "timeout_s": 10}, "TimedOut", "timeout_s 10"),
    "pull": ({"script": "true", "image": "localhost/nothing:1"}, "ImagePullFailed", "localhost/nothing:1"),
    "never": ({"script": "true", "image": "localhost/nothing:1", "pull": "never"}, "Unfit", "pull is never"),
    "no-docker": ({"script": "true", "container_command": ["nodocker"]}, "Unfit", "not installed"),
    "no-gpu": ({"script": "true", "gpus": 1}, "Unfit", "nvidia-smi finds no GPU"),
    "disk": ({"script": "true", "least_free_mib": 10**9}, "Unfit", "less than least_free_mib"),
    "credentials": ({"script": "true", "env": {"AWS_SECRET_ACCESS_KEY": "x"}}, "Crashed", "no cloud cred"),
    "chatty": ({"script": "seq 1 1500; printf unfinished"}, "Completed", "exit code 0"),
    "quotes": ({"command": "sh -c 'echo \"$0\" $1' \"; rm -rf '/' & `id` $(id)\" 'a  b'"}, "Completed", "0"),
}


async def test_every_job_ends_in_the_right_state(pool, box):
    runs = {name: await pool.start(name, **variables) for name, (variables, _, _) in ENDS.items()}
    async with pool.worker():
        states = {name: await pool.end(run_id) for name, run_id in runs.items()}
        chatty = await pool.lines(runs["chatty"])
        quotes = await pool.lines(runs["quotes"])
    assert {name: states[name].name for name in ENDS} == {name: state for name, (_, state, _) in ENDS.items()}
    for name, (_, _, words) in ENDS.items():
        assert words in states[name].message, name
    assert chatty == [*(str(n) for n in range(1, 1501)), "unfinished"]
    assert quotes == ["; rm -rf '/' & `id` $(id) a b"]


async def test_who_the_box_is_not_gets_nothing(pool, two, tmp_path, prefect, base_image):
    other = " ".join(keygen(tmp_path / "other").split()[:2])
    hosts = {
        "another-key": ({"host_key": other}, "HostKeyRefused", "instead of ssh-ed25519"),
        "unknown": ({"host_key": None}, "HostKeyRefused", "no key is pinned"),
        "refused": ({"key": str(tmp_path / "other")}, "KeyRefused", "does not let root in"),
        "no-file": ({"key": "/no/such/key"}, "KeyRefused", "can't be used"),
        "no-block": ({"key": "block:nothing"}, "KeyRefused", "no such Secret block"),
    }
    runs = {
        name: await pool.start(name, script="true", hosts=[two[0].host | change])
        for name, (change, _, _) in hosts.items()
    }
    async with pool.worker():
        for name, (_, state, words) in hosts.items():
            ended = await pool.end(runs[name])
            assert (ended.name, words in ended.message) == (state, True), ended.message


@pytest.mark.chaos
async def test_one_job_at_a_time_on_a_box(pool, box):
    script = "echo on; sleep 2; echo off"
    runs = [await pool.start(f"r{n}", script=script) for n in range(3)]
    async with pool.worker():
        for run_id in runs:
            assert (await pool.end(run_id)).name == "Completed"
        turns = [
            [line.timestamp for line in await pool.logs(run) if line.name == "ssh.container"] for run in runs
        ]
    begun = sorted(turns)
    assert all(before[-1] <= after[0] for before, after in pairwise(begun))


@pytest.mark.chaos
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
    assert [box.containers() for box in two] == [[], []]


@pytest.mark.chaos
async def test_sshd_and_worker_may_die_and_nothing_runs_twice(pool, box, prefect):
    run_id = await pool.start("goes-on", script="for i in $(seq 20); do echo $i; sleep 1; done")
    worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
    try:
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 3)
        box.restart_sshd()
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 8)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker = prefect.worker_process(pool.name, "w1", "ssh", SSH_WORKER_POLL_S=POLL_S)
        assert (await pool.end(run_id)).name == "Completed"
    finally:
        worker.kill()
        worker.wait()
    lines = await pool.lines(run_id)
    assert list(dict.fromkeys(lines)) == [str(n) for n in range(1, 21)]  # some may come twice, none is lost
    assert len(lines) <= 30


@pytest.mark.chaos
async def test_a_reboot_is_told(pool, two):
    run_id = await pool.start("rebooted", script="echo on; sleep 100")
    async with pool.worker():
        assert await pool.lines_when(run_id, bool)
        two[0].reboot()
        ended = await pool.end(run_id)
    assert ended.name == "Rebooted", ended.message
    assert two[0].containers() == []


@pytest.mark.chaos
async def test_cancelling_stops_the_container_and_frees_the_box(pool, box):
    runs, waits = await pool.start("runs", script="echo on; sleep 600"), None
    async with pool.worker():
        assert await pool.lines_when(runs, bool)
        waits = await pool.start("waits", script="true")
        await asyncio.sleep(3)
        await pool.cancel(waits)
        assert (await pool.end(waits)).name == "Cancelled"
        await pool.cancel(runs)
        assert (await pool.end(runs)).name == "Cancelled"
        assert box.containers() == []
        after = await pool.start("after", script="true")
        assert (await pool.end(after)).name == "Completed"


async def test_the_container_reaches_the_api_and_nobody_finds_its_key(pool, box, prefect, monkeypatch):
    script = "python3 -c \"import os, urllib.request; print(urllib.request.urlopen(os.environ['PREFECT_API_URL'] + '/health').read().decode())\"; grep -c KEY /run/prefect-secrets/profiles.toml; sleep 5"
    secret = "pnu_verysecretkey"
    run_id = await pool.start("tunnel", script=script, env={"PREFECT_API_KEY": secret})
    async with pool.worker():
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 2) == ["true", "1"]
        name = box.containers()[0]
        seen = box.run(f"ps axeww; docker inspect {name}; cat /root/.prefect-ssh/*/*; docker logs {name}")
        assert name in seen and secret not in seen
        assert (await pool.end(run_id)).name == "Completed"
        logs = " ".join(line.message for line in await pool.logs(run_id))
    assert secret not in logs
    assert secret not in box.run(
        "ps axeww; cat /root/.prefect-ssh/*/* /tmp/* 2>/dev/null; ls -R /dev/shm", check=False
    )
    assert "prefect-" not in box.run("ls /dev/shm")
