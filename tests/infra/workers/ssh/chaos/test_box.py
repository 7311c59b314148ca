"""A job on a box that takes too long."""

import pytest

from infra.workers.ssh.configuration import Host
from infra.workers.ssh.outcome import outcome_of
from tests.infra.workers.ssh.box_jobs import asked, begin, new_name, text, until

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(600),
]


async def test_the_box_ends_a_job_that_takes_too_long(box, machine, variables):
    job, name = asked(machine, variables, "echo on; sleep 600"), new_name()
    await begin(box, job, name, limit_s=3)
    look = await until(box, name, "ended")
    assert outcome_of(look, Host(**machine.host), job).name == "TimedOut", look
    assert await text(box, name) == "on\n"
