import tempfile
from pathlib import Path

import pytest

from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import call, connect
from tests.emulators.boxes import SSHD, SSHD_CONFIG, keygen
from tests.infra.workers.ssh.box_jobs import nothing

PORT = 2222


@pytest.fixture
def hidden(machine):
    """Run an sshd inside the box alone; yield its entry of `hosts`."""
    inner = Path(tempfile.mkdtemp(dir=machine.folder / "etc"))
    host_key, _ = keygen(inner / "host"), keygen(inner / "user")
    (inner / "authorized").write_text((inner / "user.pub").read_text())
    config = SSHD_CONFIG.format(etc=inner).replace("Port 22", f"Port {PORT}").replace("0.0.0.0", "127.0.0.1")
    (inner / "sshd_config").write_text(config)
    machine.run(f"{SSHD} -f {inner}/sshd_config >/dev/null 2>&1")
    key = " ".join(host_key.split()[:2])
    yield {"address": "127.0.0.1", "port": PORT, "user": "root", "key": str(inner / "user"), "host_key": key}
    machine.run(f"kill $(cat {inner}/sshd.pid)")


async def boot_id(host):
    async with await connect(Host(**host), nothing) as connection:
        return (await call(connection, "cat /proc/sys/kernel/random/boot_id")).stdout.decode().strip()


async def test_a_box_behind_another_is_reached_through_it_and_both_keys_are_checked(machine, hidden):
    own = (machine.folder / "etc/boot_id").read_text().strip()
    assert await boot_id(machine.host) == own
    assert await boot_id(hidden | {"jump": [machine.host]}) == own, "it is there, not on this machine"
    wrong = hidden["host_key"]
    with pytest.raises(JobRefused, match=rf"Box root@{machine.address}:22 shows the key") as caught:
        await boot_id(hidden | {"jump": [machine.host | {"host_key": wrong}]})
    assert caught.value.state == "HostKeyRefused"
    with pytest.raises(JobRefused, match=r"Box root@127.0.0.1:2222 via root@.* shows the key"):
        await boot_id(hidden | {"host_key": machine.host["host_key"], "jump": [machine.host]})


async def test_a_job_finds_its_way_through_an_alias(machine, hidden, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    known = f"{machine.address} {machine.host['host_key']}\n[127.0.0.1]:{PORT} {hidden['host_key']}\n"
    (tmp_path / ".ssh/known_hosts").write_text(known)
    (tmp_path / ".ssh/config").write_text(
        f"Host bastion\n  HostName {machine.address}\n  User root\n  IdentityFile {machine.key}\n"
        f"Host inner\n  HostName 127.0.0.1\n  Port {PORT}\n  User root\n  IdentityFile {hidden['key']}\n"
        "  ProxyJump bastion\n"
    )
    assert await boot_id({"address": "inner"}) == (machine.folder / "etc/boot_id").read_text().strip()
