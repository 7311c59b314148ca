"""A job without a container runs with the Prefect and the packages of its box: nothing is sent there."""

import logging
from typing import Any

from infra.workers.ssh.box import SshBox
from infra.workers.ssh.configuration import SshJobConfiguration
from infra.workers.ssh.processes import run_words


async def bring_code(
    box: SshBox, configuration: SshJobConfiguration, name: str, log: "logging.LoggerAdapter[Any]"
) -> dict[str, tuple[str, ...]]:
    """Return the words that run the job, in its own folder of the box."""
    folder = await box.folder(name)
    log.info("Runs without a container, in %s.", folder)
    return {"run": run_words(configuration, folder, "--code", folder)}


def code_variables() -> dict[str, str]:
    """Return the variables that every job has: none."""
    return {}
