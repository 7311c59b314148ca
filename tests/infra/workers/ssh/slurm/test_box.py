import os
import time

import pytest

from infra.workers.base.outcome import Cause
from infra.workers.ssh.box import HOME
from infra.workers.ssh.slurm.box import SlurmBox
from infra.workers.ssh.slurm.outcome import slurm_outcome
from tests.infra.workers.ssh.here import Here
from tests.infra.workers.ssh.slurm.printed import PENDING, printed
from tests.infra.workers.ssh.slurm.test_submission import configuration

LANE, WAITED_S = "prefect-1", 100


class Controller(Here):
    """A login node whose controller has job 7, and hears of its end if it `listens`."""

    def __init__(self, home):
        super().__init__(home)
        self.folder = home / HOME / LANE
        self.folder.mkdir(parents=True)
        (self.folder / "slurm").write_text("7\n")
        (self.folder / "login").touch()
        os.utime(self.folder / "login", (time.time() - WAITED_S,) * 2)
        self.command("sleep", "exit 0")
        self.command("scontrol", f"cat {home}/job")
        self.command("sacct", "exit 1")
        self.command("squeue", f"grep -qE 'JobState=(PENDING|RUNNING)' {home}/job && echo 7; exit 0")
        self.listens(False)

    def listens(self, does):
        ends = f"sed -i 's/JobState=[A-Z]*/JobState=CANCELLED/' {self.home}/job"
        self.command("scancel", ends if does else "exit 1")

    def says(self, text):
        (self.home / "job").write_text(text)


@pytest.fixture
def controller(tmp_path):
    made = Controller(tmp_path)
    made.says(PENDING.replace("PartitionTimeLimit", "Resources"))
    return made


@pytest.fixture
def box(controller):
    box = SlurmBox(controller, ["python3"])
    box.configuration = configuration(wait_s=WAITED_S - 1)
    return box


async def test_a_job_that_slurm_does_not_cancel_at_once_is_cancelled_later(controller, box):
    look = await box.look(LANE)
    assert look.state == "running" and look.job.state == "PENDING"
    controller.listens(True)
    look = await box.look(LANE)
    assert look.state == "ended", "it is asked again"
    found = slurm_outcome(look.job, look.written, box.configuration)
    assert (found.name, found.cause) == ("NoCapacity", Cause.NO_MACHINE), found.message
    assert "it was cancelled" in found.message


async def test_a_job_that_begins_before_slurm_listens_is_left_alone_and_ends_by_itself(controller, box):
    await box.look(LANE)
    assert (await box.look(LANE)).written.given_up
    controller.listens(True)
    controller.says(printed("RUNNING", "None", "0:0"))
    (controller.folder / "begun").touch()
    look = await box.look(LANE)
    assert (look.state, look.begun, look.written.given_up) == ("running", True, "")
    (controller.folder / "exit").write_text("9 false\n")
    controller.says(printed("FAILED", "NonZeroExitCode", "9:0"))
    look = await box.look(LANE)
    found = slurm_outcome(look.job, look.written, box.configuration)
    assert (found.name, found.exit_code) == ("Crashed", 9), found.message
