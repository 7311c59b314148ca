"""The words that start a job's process tree, where it runs without a container."""

import shlex
from pathlib import PurePosixPath

from infra.workers.ssh.command_line import HIDDEN
from infra.workers.ssh.configuration import SshJobConfiguration


def run_words(configuration: SshJobConfiguration, folder: str, *options: str) -> tuple[str, ...]:
    """Return the words that run the job's process tree, as infra/workers/processes reads them.

    Args:
        configuration: of the job.
        folder: of the job, on the box; its name is the job's.
        options: with the places of code and packages there.
    """
    env = f"{HIDDEN.format(name=PurePosixPath(folder).name)}/env"
    command = shlex.split(configuration.command or "")
    limit = ("--limit-s", str(configuration.timeout_s))
    return ("run", "--env-file", env, *limit, *options, folder, *command)
