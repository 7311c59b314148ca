import re

import pytest

from tests.infra.workers.ssh.box_jobs import OWN_RUN, asks

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]


async def test_a_job_reaches_only_its_own_run_and_no_key_is_on_the_box(pool, machine, monkeypatch):
    """It has a token of its tunnel, which opens nothing else."""
    others = f"{asks('/variables/name/any')}; {asks('/health', token=False)}"
    script = (
        f"{asks(OWN_RUN)}; {asks(f'/work_pools/{pool.name}')}; {others}; printenv HF_TOKEN | wc -c; sleep 5"
    )
    secret, own = "pnu_verysecretkey", "hf_token of my's; $(own)"
    run_id = await pool.start("tunnel", script=script, env={"PREFECT_API_KEY": secret, "HF_TOKEN": own})
    async with pool.worker():
        told = await pool.lines_when(run_id, lambda lines: len(lines) >= 5)
        assert told == ["200", "200", "403", "200", str(len(own) + 1)]
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
    refused = f"Box {pool_box(machine)}, flow run {run_id}: refused GET '/api/variables/name/any'"
    assert [line for line in logs if line.startswith(refused)], logs
    assert secret not in machine.run(
        "ps axeww; cat /root/.prefect-ssh/*/* /tmp/* 2>/dev/null; ls -R /dev/shm", check=False
    )
    assert "prefect-" not in machine.run("ls /dev/shm")


def pool_box(machine):
    return f"root@{machine.address}:22"
