import asyncio
import contextlib
import logging
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun

from infra.workers.brand import BRAND
from infra.workers.ssh import start
from infra.workers.ssh.box import HOME, BoxBusy, SshBox
from infra.workers.ssh.command_line import kept_volume
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import BoxUnreachable
from infra.workers.ssh.outcome import outcome_of
from infra.workers.ssh.start import Launcher
from infra.workers.ssh.tunnel import Tunnel
from tests.emulators import containers
from tests.infra.workers.ssh.box_jobs import LOCK, asked, begin, new_name, nothing, text, until

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]

LOG = logging.getLogger("ssh")


@contextlib.contextmanager
def broken_runtime(machine, *verbs):
    """Make docker fail for these verbs, as without its daemon."""
    docker = machine.folder / "bin/docker"
    whole = docker.read_text()
    shell, rest = whole.split("\n", 1)
    docker.write_text(f"{shell}\ncase $1 in {'|'.join(verbs)}) exit 1 ;; esac\n{rest}")
    try:
        yield
    finally:
        docker.write_text(whole)


async def test_a_job_runs_once_however_often_it_is_started(box, machine, variables):
    job, name = asked(machine, variables, "echo on; sleep 3"), new_name()
    await begin(box, job, name)
    await asyncio.gather(*(box.start(name, LOCK, 600) for _ in range(3)))
    assert (await until(box, name, "ended")).code == 0
    await box.start(name, LOCK, 600)
    assert await text(box, name) == "on\n"


@pytest.mark.parametrize("kind", ["containers"], indirect=True)
async def test_a_box_caches_only_requested_files_for_later_jobs(box, machine, variables):
    shows = f"ls {BRAND.cache_path} /left 2>/dev/null"
    for keep, script, printed in (
        (True, f"echo code >{BRAND.cache_path}/tree.pack; touch /left; echo done", "done\n"),
        (False, shows, ""),
        (True, shows, f"{BRAND.cache_path}:\ntree.pack\n"),
    ):
        name = new_name()
        await begin(box, asked(machine, variables, f"{script}; true", keep=keep), name)
        assert (await until(box, name, "ended")).code == 0
        assert await text(box, name) == printed
    machine.run(f"docker volume rm {kept_volume('')}")


async def test_the_job_that_holds_a_box_is_named_and_waited_for(box, machine, variables):
    job, name, other = asked(machine, variables, "sleep 4"), new_name(), new_name()
    await begin(box, job, name)
    with pytest.raises(BoxBusy, match=name):
        await begin(box, job, other)
    with pytest.raises(BoxBusy, match=name):
        await box.free(LOCK, 0)
    await box.free(LOCK, 60)
    assert (await box.look(name)).state == "ended"
    assert (await box.look(other)).state == "prepared"


@pytest.mark.parametrize("kind", ["containers"], indirect=True)
async def test_a_runtime_that_gives_no_answer_has_not_ended_the_container(box, machine, variables):
    job, name = asked(machine, variables, "sleep 600"), new_name()
    await begin(box, job, name)
    while not machine.containers():
        await asyncio.sleep(0.1)
    while not machine.run("pgrep -f '[p]odman.* logs -f'", check=False):
        await asyncio.sleep(0.1)
    with broken_runtime(machine, "ps", "inspect", "stop", "rm", "logs"):
        machine.run("pkill -f '[p]odman.* logs -f'")
        await asyncio.sleep(2)
        assert (await box.look(name)).state == "running"
        assert not await box.stop(name, 1)
    assert machine.containers() == [name]
    assert await box.stop(name, 1)
    assert machine.containers() == []


@pytest.mark.parametrize("kind", ["containers"], indirect=True)
async def test_time_that_runs_out_while_the_image_comes_starts_nothing(box, machine, variables):
    job, name = asked(machine, variables, "sleep 600"), new_name()
    docker = machine.folder / "bin/docker"
    shell, rest = docker.read_text().split("\n", 1)
    docker.write_text(f"{shell}\n[ $1 != pull ] || sleep 600\n{rest}")
    await begin(box, job, name, limit_s=3, pull=b"pull\0an-image\0")
    look = await until(box, name, "ended")
    assert outcome_of(look, Host(**machine.host), job).name == "TimedOut"
    await box.free(LOCK, 30)


@pytest.mark.parametrize("kind", ["containers"], indirect=True)
async def test_words_that_are_too_many_are_refused_whole(box, machine, variables):
    job = asked(machine, variables, "true", labels={f"label-{n}": "x" * 1000 for n in range(200)})
    name = new_name()
    await begin(box, job, name)
    look = await until(box, name, "ended")
    assert outcome_of(look, Host(**machine.host), job).name == "Crashed"
    assert "too long" in await text(box, name)


async def test_only_the_owner_can_read_the_secrets_of_a_job(box, machine, variables):
    place = f"/dev/shm/{(name := new_name())}"
    job = asked(machine, variables, "sleep 600", env={"PREFECT_API_KEY": "pnu_secret"})
    machine.run(f"mkdir -m 777 {place} {place}/prefect-secrets && chmod 777 {place} {place}/prefect-secrets")
    await begin(box, job, name, secret="a secret")
    assert machine.run(f"stat -c %a {place}") == "700"
    assert machine.run(f"cat {place}/prefect-secrets/profiles.toml") == "a secret"
    assert await box.stop(name, 1)
    assert machine.run(f"ls {place}", check=False) == ""


def tunnel():
    return Tunnel(FlowRun(id=uuid4(), flow_id=uuid4()), LOG)


class LostAnswer:
    """`SshBox.start` that works, but whose first answer is lost."""

    def __init__(self, real):
        self.real, self.calls = real, 0

    def __get__(self, box, owner):
        async def start(*arguments):
            self.calls += 1
            await self.real(box, *arguments)
            if self.calls == 1:
                raise BoxUnreachable("The connection was lost.")

        return start


@pytest.mark.parametrize("kind", ["containers"], indirect=True)
async def test_a_box_that_might_have_the_job_is_asked_before_any_other(two, machine, variables, monkeypatch):
    monkeypatch.setattr(start.SshBox, "start", LostAnswer(SshBox.start))
    job = asked(machine, variables, "echo on; sleep 3", hosts=[box.host for box in two])
    noted = []

    async def note(host):
        noted.append(host.address)

    async def wanted():
        return False

    started = await Launcher(job, (name := new_name()), tunnel(), nothing, note, wanted, LOG, 0.2).start()
    async with started.box.connection:
        assert started.host.address == two[0].address and noted == [two[0].address]
        look = await until(started.box, name, "ended")
        assert look.code == 0
    assert two[1].containers() == []
    assert two[1].run(f"ls -d /root/{HOME}/{name}", check=False) == ""


async def test_an_image_comes_over_the_connection_once(machine, caplog):
    store = machine.folder / "etc/storage.conf"
    whole = store.read_text()
    store.write_text(whole.replace("/var/lib/containers/storage", "").replace('[""]', "[]"))
    image = "localhost/gridbench-tiny:1"
    with contextlib.ExitStack() as undo:
        undo.callback(store.write_text, whole)
        undo.callback(machine.run, f"docker rmi -f {image}", check=False)
        if not containers.has_image(image):
            tiny = "FROM scratch\nCOPY hello /hello\n"
            folder = machine.folder / "tiny"
            folder.mkdir()
            (folder / "hello").write_text("hello")
            (folder / "Dockerfile").write_text(tiny)
            containers.podman("build", "--quiet", "--tag", image, str(folder))
        undo.callback(containers.podman, "rmi", "-f", image, check=False)
        job = asked(machine, {"image": image}, "true", pull="stream", stream_command=["podman"])
        monkey = pytest.MonkeyPatch()
        undo.callback(monkey.undo)
        monkey.setenv("CONTAINERS_CONF", containers.environment()["CONTAINERS_CONF"])

        async def nobody(*_):
            return False

        caplog.set_level(logging.INFO)
        for _ in range(2):
            started = await Launcher(
                job, (name := new_name()), tunnel(), nothing, nobody, nobody, LOG, 0.2
            ).start()
            async with started.box.connection:
                await until(started.box, name, "ended")
        sent = [record for record in caplog.records if "Sending image" in record.getMessage()]
        assert len(sent) == 1 and ", 0.0 GB, " in sent[0].getMessage()
        assert image in machine.run("docker images --format '{{.Repository}}:{{.Tag}}'")
