import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from infra.local.processes import SUPERVISOR
from infra.local.supervisor import MARK, ROLE, marked, sweep
from tests.infra.local.stack_probe import until

pytestmark = [
    pytest.mark.flaky(reruns=2, reason="a neighbour's load changes what is measured, and when processes end"),
    pytest.mark.alone,
]  # processes that refuse to die

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT_OF_A_SESSION = (
    "import subprocess, time; subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)"
)
OWNER = """
import os, subprocess, sys
read, write = os.pipe()
subprocess.Popen([sys.executable, "-P", sys.argv[1], sys.argv[2], str(read), *sys.argv[3:]], pass_fds=[read],
                 start_new_session=True)
os.close(read)
input()
"""


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return str(tmp_path)


def owner(mark: str, *command: str, role: str = "worker", **more: object) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, MARK: mark, ROLE: role}
    program = [sys.executable, "-c", OWNER, str(SUPERVISOR), mark, *command]
    return subprocess.Popen(program, env=environment, stdin=subprocess.PIPE, **more)  # type: ignore[call-overload]


def named(mark: str, name: str) -> list[psutil.Process]:
    return [process for process in marked(mark, servers=True) if name in " ".join(process.cmdline()[:1])]


@pytest.mark.parametrize("role", ["worker", "server"])
def test_the_command_ends_with_its_owner_however_that_ends(mark: str, role: str):
    process = owner(mark, "sleep", "60", role=role)
    assert until(lambda: named(mark, "sleep"), 10)
    process.kill()
    process.wait()
    assert until(lambda: not marked(mark, servers=True), 10)


def test_a_grandchild_in_a_session_of_its_own_ends_too(mark: str):
    process = owner(mark, sys.executable, "-c", PARENT_OF_A_SESSION)
    assert until(lambda: named(mark, "sleep"), 10)
    process.kill()
    process.wait()
    assert until(lambda: not marked(mark), 10)


def test_the_command_ends_when_the_guard_is_killed(mark: str):
    process = owner(mark, "sleep", "60")
    assert until(lambda: named(mark, "sleep"), 10)
    supervisor = next(one for one in marked(mark, {process.pid}) if str(SUPERVISOR) in one.cmdline())
    supervisor.kill()
    assert until(lambda: not named(mark, "sleep"), 5)
    process.kill()
    process.wait()


def test_a_command_that_ignores_sigterm_is_killed(mark: str):
    process = owner(mark, sys.executable, "-c", STUBBORN, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"up\n"
    process.kill()
    process.wait()
    assert until(lambda: not marked(mark), 12)


def guarded(mark: str, *command: str, **more: object) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, MARK: mark, ROLE: "worker"}
    read, write = os.pipe()
    program = [sys.executable, "-P", str(SUPERVISOR), mark, str(read), *command]
    process = subprocess.Popen(program, env=environment, pass_fds=[read], **more)  # type: ignore[call-overload]
    os.close(read)
    process.parent_pipe = write
    return process


@pytest.mark.parametrize(
    ("code", "status"), [("exit(0)", 0), ("exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_status_is_the_commands(mark: str, code: str, status: int):
    process = guarded(mark, sys.executable, "-c", code)
    assert process.wait(10) == status
    os.close(process.parent_pipe)


def test_processes_that_a_finished_command_leaves_are_ended(mark: str):
    process = guarded(mark, "sh", "-c", "sleep 60 & exit 0")
    assert process.wait(10) == 0
    assert not marked(mark)
    os.close(process.parent_pipe)


def test_a_command_started_where_sigint_is_ignored_can_be_interrupted(mark: str):
    """As by `prefect … &` in a script; Prefect's worker turns SIGTERM into SIGINT."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = guarded(mark, sys.executable, "-c", code, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout and process.stdout.read() == b"True\n"
    process.wait()
    os.close(process.parent_pipe)


def test_a_worker_that_ends_leaves_the_other_worker_alone(mark: str):
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark, ROLE: "worker-other"})
    process = guarded(mark, "sh", "-c", "sleep 60 & exit 0")
    assert process.wait(10) == 0
    assert [one.pid for one in marked(mark)] == [other.pid]
    os.close(process.parent_pipe)
    other.kill()
    other.wait()


def test_a_sweep_spares_servers_strangers_and_named_processes(mark: str):
    environment = {**os.environ, MARK: mark, ROLE: "server"}
    server = subprocess.Popen(["sleep", "60"], env=environment)
    spared = subprocess.Popen(["sleep", "60"], env={**environment, ROLE: "worker"})
    stranger = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: f"{mark}-other"})
    left = subprocess.Popen(["sleep", "60"], env={**environment, ROLE: "worker"})
    assert sweep(mark, {spared.pid}) == 1
    assert left.wait(5) == -signal.SIGTERM
    assert [one.poll() for one in (server, spared, stranger)] == [None] * 3
    assert sweep(mark, servers=True) == 2
    assert stranger.poll() is None
    stranger.kill()
    for one in (server, spared, stranger):
        one.wait()
