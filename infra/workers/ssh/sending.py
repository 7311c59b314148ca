"""The code of a job without a container."""

import logging
import shlex
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from ..brand import BRAND
from .box import SshBox
from .command_line import HIDDEN
from .configuration import SshJobConfiguration


async def bring_code(
    box: SshBox, configuration: SshJobConfiguration, name: str, log: "logging.LoggerAdapter[Any]"
) -> dict[str, tuple[str, ...]]:
    """Return the command lines that prepare the job and run it.

    `JobRefused` if the code cannot be sent, `BoxUnreachable` for a lost connection.
    """
    if BRAND.code_module:
        words: dict[str, tuple[str, ...]] = await import_module(BRAND.code_module).bring_code(
            box, configuration, name, log
        )
        return words
    folder = await box.folder(name)
    log.info("Runs without a container, in %s.", folder)
    return {"run": run_words(configuration, folder, "--code", folder)}


def code_variables() -> dict[str, str]:
    return dict(import_module(BRAND.code_module).code_variables()) if BRAND.code_module else {}


def run_words(configuration: SshJobConfiguration, folder: str, *options: str) -> tuple[str, ...]:
    """Return a process tree's command line; the folder's name is the job's."""
    env = f"{HIDDEN.format(name=PurePosixPath(folder).name)}/env"
    limit = ("--limit-s", str(configuration.timeout_s))
    return ("run", "--env-file", env, *limit, *options, folder, *shlex.split(configuration.command or ""))
