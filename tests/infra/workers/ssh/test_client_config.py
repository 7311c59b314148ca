import contextlib

import asyncssh
import pytest

from infra.lambda_cloud.rent import key_pair
from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh import client_config
from infra.workers.ssh.client_config import hop, known_hosts, user_of, way_to
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import connect
from tests.infra.workers.ssh.box_jobs import nothing

HOST, LOGIN, OTHER = (key_pair(name) for name in ("host", "login", "other"))


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    folder = tmp_path / ".ssh"
    folder.mkdir(mode=0o700)
    (folder / "a_key").write_text(LOGIN.private)
    (folder / "a_key").chmod(0o600)
    monkeypatch.setattr(client_config, "GLOBAL_KNOWN_HOSTS", (str(tmp_path / "global"),))
    return tmp_path


def configured(home, text):
    (home / ".ssh/config").write_text(text)


class Open(asyncssh.SSHServer):
    def connection_requested(self, *_):
        return True


@contextlib.asynccontextmanager
async def server(host=HOST):
    users, sessions = [], []

    def handle(process):
        users.append(process.get_extra_info("username"))
        sessions.append((dict(process.env), process.term_type, process.command))
        process.stdout.write("here")
        process.exit(0)

    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=Open,
        server_host_keys=[asyncssh.import_private_key(host.private)],
        authorized_client_keys=asyncssh.import_authorized_keys(LOGIN.public),
        process_factory=handle,
    )
    try:
        yield listener.get_port(), users, sessions
    finally:
        listener.close()


async def output_of(host):
    async with await connect(host, nothing) as connection:
        return (await connection.run("echo here")).stdout


def alias(name, port, user="somebody", more=""):
    return f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentityFile ~/.ssh/a_key\n{more}"


def known(*ports, key=HOST):
    return "".join(f"[127.0.0.1]:{port} {' '.join(key.public.split()[:2])}\n" for port in ports)


@pytest.mark.parametrize("file", [".ssh/known_hosts", "global"])
async def test_an_alias_is_reached_as_its_configuration_says(home, file):
    async with server() as (port, users, _):
        configured(home, alias("my_box", port))
        (home / file).write_text(known(port))
        assert await output_of(Host(address="my_box")) == "here"
        assert await output_of(Host(address="my_box", user="root")) == "here"
    assert users == ["somebody", "root"]


async def test_a_box_is_reached_through_the_jumps_of_its_configuration(home):
    async with server() as (outer, outer_users, _), server(OTHER) as (inner, users, _):
        text = alias("inner", inner, more="  ProxyJump first,hidden@second\n")
        configured(home, text + alias("first", outer, "one") + alias("second", outer, "two"))
        (home / ".ssh/known_hosts").write_text(known(outer) + known(inner, key=OTHER))
        box = Host(address="inner")
        assert [str(each) for each in way_to(box)] == ["ubuntu@first:22", "hidden@second:22"]
        assert await output_of(box) == "here"
    assert users == ["somebody"] and outer_users == []


async def test_the_key_of_a_jump_is_checked_despite_the_configuration(home):
    async with server(OTHER) as (outer, _, _), server() as (inner, users, _):
        careless = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n"
        configured(home, alias("outer", outer) + alias("inner", inner, more="  ProxyJump outer\n") + careless)
        with pytest.raises(
            JobRefused, match=r"Box ubuntu@outer:22 shows the key .* no key is pinned"
        ) as caught:
            await output_of(Host(address="inner", host_key=HOST.public))
        assert caught.value.state == "HostKeyRefused"
        pinned = {"address": "outer", "host_key": HOST.public}
        with pytest.raises(JobRefused, match=r"Box ubuntu@outer:22 shows the key .* instead of"):
            await output_of(Host(address="inner", host_key=HOST.public, jump=[pinned]))
    assert users == []


async def test_a_configuration_for_people_sends_nothing_and_starts_nothing_of_its_own(home, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_MINE", "secret")
    more = "  ForwardAgent yes\n  RequestTTY force\n  RemoteCommand tmux\n  SendEnv TOKEN_*\n  SetEnv A=b\n"
    async with server() as (port, _, sessions):
        configured(home, alias("box", port, more=more))
        assert await output_of(Host(address="box", host_key=HOST.public)) == "here"
    assert sessions == [({}, None, "echo here")]


def test_jumps_in_a_circle_are_reported(home):
    configured(home, "Host *\n  ProxyJump bastion\n")
    with pytest.raises(JobRefused, match=r"is circular \(.*bastion.*\): .*ProxyJump none"):
        way_to(Host(address="box"))
    configured(home, "Host bastion\n  ProxyJump none\nHost *\n  ProxyJump bastion\n")
    assert [each.address for each in way_to(Host(address="box"))] == ["bastion"]
    assert way_to(Host(address="bastion")) == []


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("box", ("box", None, None)),
        ("me@box:2222", ("box", "me", 2222)),
        ("ssh://me@box:22", ("box", "me", 22)),
        ("[fe80::1]:22", ("fe80::1", None, 22)),
    ],
)
def test_a_jump_is_read_as_ssh_reads_it(text, read):
    jump = hop(text)
    assert (jump.address, jump.user, jump.port) == read


@pytest.mark.parametrize("text", ["", "a b", "me@", "box:x", "box:99999", "-oProxyCommand=x"])
def test_an_invalid_jump_host_is_refused(text):
    with pytest.raises(JobRefused, match=r"is not \[USER@\]HOST\[:PORT\]"):
        hop(text)


def test_without_a_configuration_the_user_is_ubuntu(home):
    assert user_of(Host(address="box")) == "ubuntu"


@pytest.mark.parametrize("text", ["Port many\n", "Host\n  Port\n"])
def test_a_configuration_that_cannot_be_read_is_reported(home, text):
    configured(home, text)
    with pytest.raises(JobRefused, match=r"~/.ssh/config can't be used for box ubuntu@box:22"):
        way_to(Host(address="box"))


async def test_an_identity_that_is_not_there_is_reported(home):
    async with server() as (port, _, _):
        configured(home, alias("box", port).replace("a_key", "no_key"))
        with pytest.raises(JobRefused, match=r"can't be used for box .*no_key"):
            await output_of(Host(address="box", host_key=HOST.public))


def test_known_hosts_that_cannot_be_read_are_reported(home):
    (home / ".ssh/known_hosts").write_text("nonsense\n")
    with pytest.raises(JobRefused, match=r"known hosts in .* can't be read"):
        known_hosts(Host(address="box"))


def test_a_box_names_its_way_so_that_two_of_one_address_are_two():
    one, other = (Host(address="10.0.0.5", jump=[{"address": name}]) for name in ("a", "b"))
    assert (str(one), str(other)) == (
        "ubuntu@10.0.0.5:22 via ubuntu@a:22",
        "ubuntu@10.0.0.5:22 via ubuntu@b:22",
    )
    assert hash(one) != hash(other)
