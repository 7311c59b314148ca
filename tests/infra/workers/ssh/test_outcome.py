import asyncio
import os

import pytest

from infra.workers.base.outcome import Cause
from infra.workers.ssh.box import Look, SshBox
from infra.workers.ssh.configuration import Host, SshJobConfiguration
from infra.workers.ssh.outcome import outcome_of
from tests.infra.workers.ssh.here import Here

BOX = Host(address="10.0.0.1")
JOB = SshJobConfiguration.model_construct(memory_mib=100, image="lane:1")


@pytest.mark.parametrize(
    ("runs", "name", "cause", "words"),
    [
        (0, "Removed", Cause.TAKEN_AWAY, "was removed from box ubuntu@10.0.0.1:22 outside of Prefect"),
        (125, "Crashed", Cause.CRASHED, "could not be started on box ubuntu@10.0.0.1:22"),
    ],
)
async def test_a_removed_container_is_distinguished_from_a_container_that_never_ran(
    tmp_path, runs, name, cause, words
):
    connection = Here(tmp_path)
    connection.command("docker", f"case $1 in run) exit {runs} ;; inspect) exit 1 ;; esac")
    box = SshBox(connection, ["docker"])
    lane = f"lane-{os.getpid()}"  # /dev/shm, which all share, gets a folder of this name
    await box.prepare(lane, {"run": b"run\0"})
    await box.start(lane, "~/box.lock", 60)
    async with asyncio.timeout(20):
        while (look := await box.look(lane)).state != "ended":
            await asyncio.sleep(0.01)
    found = outcome_of(look, BOX, JOB)
    assert (found.name, found.cause, words in found.message) == (name, cause, True), found.message
    assert look.begun == (runs == 0)


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Look("ended", code=137, oom=True), "out of memory (memory_mib 100 was not enough, exit code 137)."),
        (Look("ended", code=137), "ran out of memory, or it was killed (memory_mib 100, exit code 137)."),
    ],
)
def test_a_kill_is_certainly_out_of_memory_only_if_the_runtime_saw_it(look, words):
    found = outcome_of(look, BOX, JOB)
    assert found.name == "OutOfMemory" and found.message.endswith(words), found.message
