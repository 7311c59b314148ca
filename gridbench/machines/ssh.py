"""gridbench ssh: boxes that SSH reaches."""

import asyncio
from typing import Annotated, Any

import typer

from gridbench.terminal import say
from tasks.errors import GridbenchError

app = typer.Typer(help="Boxes that SSH reaches.", no_args_is_help=True)


@app.command()
def check(
    host: Annotated[str, typer.Argument(help="Name or address, with USER@ before it where it is not ubuntu")],
    port: Annotated[int, typer.Option(help="Port of its sshd")] = 22,
    key: Annotated[
        str | None, typer.Option(help="Private key file; the agent's and default ones otherwise")
    ] = None,
    host_key: Annotated[
        str | None, typer.Option(help="Its public host key, 'ssh-ed25519 AAAA…'; as in known_hosts otherwise")
    ] = None,
    command: Annotated[
        str, typer.Option(help="What runs containers there: docker, podman or 'sudo docker'")
    ] = "docker",
    image: Annotated[str, typer.Option(help="Image that it should have or can pull")] = "an-image",
    gpus: Annotated[int, typer.Option(help="GPUs that a container would get", min=0)] = 0,
) -> None:
    """Say whether a box is fit to measure on; exits with 1 if it is not."""
    from pydantic import ValidationError

    from infra.workers.base.job_configuration import JobRefused, one_sentence
    from infra.workers.ssh.configuration import SshJobConfiguration
    from infra.workers.ssh.connection import BoxUnreachable

    user, _, address = host.rpartition("@")
    box = {"address": address, "user": user or "ubuntu", "port": port, "key": key, "host_key": host_key}
    try:
        asked = SshJobConfiguration(
            hosts=[box], container_command=command.split(), image=image, gpus=gpus, env={}, labels={}
        )
    except ValidationError as error:
        raise GridbenchError(one_sentence(error).rstrip(".")) from None
    try:
        found = asyncio.run(_look(asked))
    except (JobRefused, BoxUnreachable) as error:
        raise GridbenchError(str(error).rstrip(".")) from None
    for well, sentence in found:
        say(f"{'ok ' if well else 'fix'}  {sentence}")
    raise typer.Exit(0 if all(well for well, _ in found) else 1)


async def _look(asked: Any) -> list[tuple[bool, str]]:
    """What is well on the box and what is not, in sentences."""
    from infra.workers.ssh.box import SshBox
    from infra.workers.ssh.check import has_image, unmet_requirements
    from infra.workers.ssh.connection import connect

    async def no_blocks(name: str) -> str:
        raise GridbenchError(f"--key is block:{name}: name a file here")

    host = asked.hosts[0]
    async with await connect(host, no_blocks) as connection:
        facts = await SshBox(connection, asked.container_command).check(asked.image)
    gpus = facts.get("gpu", [])
    found = [(True, f"{host} lets us in, kernel {facts['kernel'][0]}, {facts['architecture'][0]}")]
    found += [(True, f"GPU {number}: driver {gpu}") for number, gpu in enumerate(gpus)]
    if has_image(facts):
        found.append((True, f"image {asked.image} is there"))
    wrong = unmet_requirements(facts, asked)
    return found + ([(False, sentence) for sentence in wrong] or [(True, "it is fit to measure on")])
