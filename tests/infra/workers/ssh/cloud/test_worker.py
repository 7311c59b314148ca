"""The ssh worker against a real Prefect server and boxes with a real sshd and real containers."""

import re

import pytest

from tests.emulators.boxes import keygen
from tests.infra.workers.ssh.box_jobs import OWN_RUN, asks

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]

# Without containers the memory that a job may use is the machine's, or what its administrator gives a user.
SMALL = "/sys/fs/cgroup/memory/gridbench-small"
HUNGRY = (
    f"mkdir -p {SMALL}; echo 100M >{SMALL}/memory.limit_in_bytes; echo $$ >{SMALL}/cgroup.procs; "
    'exec python3 -c "x = bytearray(600 << 20)"'
)
ENDS = {
    # name: job variables, state, words of its message
    "exits-0": ({"script": "echo fine"}, "Completed", "exit code 0"),
    "exits-9": ({"script": "echo oops >&2; exit 9"}, "Crashed", "exit code 9"),
    "late": ({"script": "sleep 100", "timeout_s": 10}, "TimedOut", "timeout_s 10"),
    "no-gpu": ({"script": "true", "gpus": 1}, "Unfit", "nvidia-smi finds no GPU"),
    "disk": ({"script": "true", "least_free_mib": 10**9}, "Unfit", "less than least_free_mib"),
    "credentials": ({"script": "true", "env": {"AWS_SECRET_ACCESS_KEY": "x"}}, "Crashed", "no cloud cred"),
    "chatty": ({"script": "seq 1 1500; printf unfinished"}, "Completed", "exit code 0"),
    "quotes": ({"command": "sh -c 'echo \"$0\" $1' \"; rm -rf '/' & `id` $(id)\" 'a  b'"}, "Completed", "0"),
}


OF_ONE_KIND = {
    "containers": {
        "memory": (
            {"command": 'python3 -c "x = bytearray(600 << 20)"', "memory_mib": 100},
            "OutOfMemory",
            "memory_mib 100",
        ),
        "pull": ({"script": "true", "image": "localhost/no:1"}, "ImagePullFailed", "localhost/no:1"),
        "never": ({"script": "true", "image": "localhost/no:1", "pull": "never"}, "Unfit", "pull is never"),
        "nothing": ({"script": "true", "container_command": ["nodocker"]}, "Unfit", "not installed"),
    },
    "processes": {
        "memory": ({"script": HUNGRY}, "OutOfMemory", "the box's memory was not enough, exit code 137"),
        "nothing": ({"script": "true", "python": "/no/python"}, "Unfit", "python is /no/python"),
        "mounts": ({"script": "true", "mounts": ["/a:/b"]}, "Crashed", "only a container has it"),
    },
}
LATE = {"memory", "late", "pull"}  # they take seconds each


async def ends(pool, kind, *, late, read=()):
    """Run jobs on one box, and hold each one's end against its own; returns the lines of some of them."""
    every = ENDS | OF_ONE_KIND[kind]
    names = [name for name in every if (name in LATE) == late]
    runs = {name: await pool.start(name, **every[name][0]) for name in names}
    async with pool.worker():
        states = {name: await pool.end(run_id) for name, run_id in runs.items()}
        lines = [await pool.lines(runs[name]) for name in read]
    assert {name: state.name for name, state in states.items()} == {name: every[name][1] for name in names}
    for name in names:
        assert every[name][2] in states[name].message, name
    return lines


async def test_every_job_ends_in_the_right_state(pool, kind, machine):
    chatty, quotes = await ends(pool, kind, late=False, read=("chatty", "quotes"))
    assert chatty == [*(str(n) for n in range(1, 1501)), "unfinished"]
    assert quotes == ["; rm -rf '/' & `id` $(id) a b"]


async def test_a_job_that_is_ended_and_one_without_an_image_say_why(pool, kind, machine):
    await ends(pool, kind, late=True)


@pytest.mark.parametrize("kind", ["containers"], indirect=True)
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


async def test_the_job_reaches_its_run_alone_and_nobody_finds_a_key(pool, machine, monkeypatch):
    """What it has is a token of its tunnel, which opens nothing else; the worker's key stays where it is."""
    others = f"{asks('/variables/name/any')}; {asks('/health', token=False)}"
    script = f"{asks(OWN_RUN)}; {others}; printenv HF_TOKEN | wc -c; sleep 5"
    secret, own = "pnu_verysecretkey", "hf_token of my's; $(own)"
    run_id = await pool.start("tunnel", script=script, env={"PREFECT_API_KEY": secret, "HF_TOKEN": own})
    async with pool.worker():
        told = await pool.lines_when(run_id, lambda lines: len(lines) >= 4)
        assert told == ["200", "403", "200", str(len(own) + 1)]
        (name,) = machine.jobs()
        token = re.search(
            r'"(box:[^"]+)"', machine.run(f"cat /dev/shm/{name}/prefect-secrets/profiles.toml")
        )[1]
        seen = machine.run(
            f"ps axeww; docker inspect {name}; cat /root/.prefect-ssh/*/*; docker logs {name}", check=False
        )
        assert name in seen and secret not in seen and token not in seen
        assert own not in machine.run("ps axww; cat /root/.prefect-ssh/*/*", check=False)
        assert machine.run(f"stat -c %a /dev/shm/{name} /dev/shm/{name}/env").split() == ["700", "600"]
        assert secret not in machine.run("cat /dev/shm/*/* /dev/shm/*/*/*", check=False)
        assert (await pool.end(run_id)).name == "Completed"
        logs = [line.message for line in await pool.logs(run_id)]
    assert not any(secret in line or token in line for line in logs)
    refused = f"Box {pool_box(machine)}, flow run {run_id}: GET '/api/variables/name/any' was refused"
    assert [line for line in logs if line.startswith(refused)], logs
    assert secret not in machine.run(
        "ps axeww; cat /root/.prefect-ssh/*/* /tmp/* 2>/dev/null; ls -R /dev/shm", check=False
    )
    assert "prefect-" not in machine.run("ls /dev/shm")


def pool_box(machine):
    return f"root@{machine.address}:22"
