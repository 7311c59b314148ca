"""A box behind SSH, reached from this machine and asked what it is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.errors import GridbenchError


@contextmanager
def said_plainly() -> Iterator[None]:
    """Turn what the worker says of a mistake, or of a box that it can't reach, into a sentence of ours."""
    from pydantic import ValidationError

    from infra.workers.base.job_configuration import JobRefused, one_sentence
    from infra.workers.ssh.connection import BoxUnreachable

    try:
        yield
    except (JobRefused, BoxUnreachable) as error:
        raise GridbenchError(str(error).rstrip(".")) from None
    except ValidationError as error:
        raise GridbenchError(one_sentence(error).rstrip(".")) from None


def configuration_of(variables: Mapping[str, Any]) -> Any:
    """Return the configuration of a job that measures on a box, from its job variables."""
    from infra.workers.ssh.configuration import SshJobConfiguration

    return SshJobConfiguration.model_validate({**variables, "env": {}, "labels": {}})


async def facts_of(configuration: Any, no_blocks: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the facts that a job's first box reports about itself, and a sentence for each that is unfit.

    `no_blocks` is said where its key is a block of a Prefect server, `{name}`, which is not asked here.

    Raises:
        GridbenchError: the key is a block.
        JobRefused, BoxUnreachable: as the worker's connection.
    """
    from infra.workers.ssh.box import SshBox
    from infra.workers.ssh.check import unmet_requirements
    from infra.workers.ssh.connection import connect

    async def refuse(name: str) -> str:
        raise GridbenchError(no_blocks.format(name=name))

    async with await connect(configuration.hosts[0], refuse) as connection:
        facts = await SshBox.of(connection, configuration).check(configuration.image or "")
    return facts, unmet_requirements(facts, configuration)
