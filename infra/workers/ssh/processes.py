"""A job without a container: its code and packages on the box, and the words that start its process tree."""

import logging
import shlex
import time
from typing import Any

from infra.images.errors import ImageError
from infra.workers.base.job_configuration import JobRefused
from infra.workers.processes.lane import lane_bundle
from infra.workers.ssh.box import HOME, SshBox
from infra.workers.ssh.command_line import HIDDEN
from infra.workers.ssh.configuration import SshJobConfiguration


async def bring_lane(
    box: SshBox, configuration: SshJobConfiguration, name: str, log: "logging.LoggerAdapter[Any]"
) -> dict[str, tuple[str, ...]]:
    """Bring a lane's code to the box, unless it has it; returns the words that make it ready and that run it.

    Raises:
        JobRefused: this is no checkout, or the box can't be written to.
        BoxUnreachable: the connection was lost.
    """
    try:
        lane, content = lane_bundle()
    except (OSError, ImageError) as error:
        raise JobRefused(f"The worker has no whole checkout to send to the box ({error}).", "Unfit") from None
    began = time.monotonic()
    await box.bring(f"{HOME}/{lane}.pyz", content)
    log.info("Code of the lane, %s: there in %.1f s.", lane, time.monotonic() - began)
    place = await box.folder(lane)
    return {"pull": ("pull", name, f"{place}.pyz"), "run": run_words(configuration, name, place)}


def run_words(configuration: SshJobConfiguration, name: str, place: str) -> tuple[str, ...]:
    """Return the words that run the job's process tree, as infra/workers/processes reads them.

    Args:
        configuration: of the job.
        name: of the job.
        place: folder of the lane's code and packages, on the box.
    """
    words = ("--env-file", f"{HIDDEN.format(name=name)}/env", "--limit-s", str(configuration.timeout_s))
    folder = f"{place.rpartition('/')[0]}/{name}"
    command = shlex.split(configuration.command or "")
    return ("run", *words, "--code", f"{place}/code", "--bin", f"{place}/bin", folder, *command)
