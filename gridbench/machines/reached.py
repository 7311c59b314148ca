"""Facts about a box behind SSH, read from this machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.errors import GridbenchError


@contextmanager
def said_plainly() -> Iterator[None]:
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
    from infra.workers.ssh.configuration import SshJobConfiguration

    return SshJobConfiguration.model_validate({**variables, "env": {}, "labels": {}})


async def facts_of(configuration: Any, no_blocks: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the facts of a job's first box, and a sentence for each unmet requirement.

    `no_blocks` is the error for a key in a Prefect server's block `{name}`, which is not read here.

    Raises:
        JobRefused, BoxUnreachable: from the worker's connection.
    """
    from infra.workers.ssh.box import SshBox
    from infra.workers.ssh.check import unmet_requirements
    from infra.workers.ssh.connection import connect

    async def refuse(name: str) -> str:
        raise GridbenchError(no_blocks.format(name=name))

    async with await connect(configuration.hosts[0], refuse) as connection:
        facts = await SshBox.of(connection, configuration).check(configuration.image or "")
    return facts, unmet_requirements(facts, configuration)
