"""The commands `gridbench ssh …`: check boxes behind SSH."""

import asyncio
from typing import Annotated, Any

import typer

from gridbench.machines.reached import configuration_of, facts_of, said_plainly
from gridbench.terminal import say

app = typer.Typer(help="Check a box behind SSH.", no_args_is_help=True)


@app.command()
def check(
    host: Annotated[
        str, typer.Argument(help="Name, address or alias of the box; USER@HOST if the user is not ubuntu")
    ],
    port: Annotated[int | None, typer.Option(help="Port of its SSH server", show_default="22")] = None,
    key: Annotated[
        str | None, typer.Option(help="Private key file; by default the keys of the SSH agent and ~/.ssh")
    ] = None,
    jump: Annotated[
        list[str] | None,
        typer.Option(help="[USER@]HOST[:PORT] through which it is reached; several times for several"),
    ] = None,
    host_key: Annotated[
        str | None,
        typer.Option(help="Public host key, 'ssh-ed25519 AAAA…'; by default the one in known_hosts"),
    ] = None,
    command: Annotated[
        str,
        typer.Option(
            help="Container command there: docker, podman, 'sudo docker'; or none, for a box with torch"
        ),
    ] = "docker",
    image: Annotated[str, typer.Option(help="Image that the box has or can pull")] = "an-image",
    gpus: Annotated[int, typer.Option(help="GPUs that a container must get", min=0)] = 0,
) -> None:
    """Check whether a box is fit to measure on; the exit code is 1 if it is not.

    Settings that are not given come from ~/.ssh/config.
    """
    from infra.workers.ssh.client_config import hop

    user, _, address = host.rpartition("@")
    box = {"address": address, "user": user or None, "port": port, "key": key, "host_key": host_key}
    container: dict[str, Any] = {"container_command": command.split(), "image": image}
    if command == "none":
        container = {"container_command": command}
    with said_plainly():
        way = {"jump": [hop(text) for text in jump or ()]}
        configuration = configuration_of({"hosts": [box | way], "gpus": gpus} | container)
        findings = asyncio.run(_examine(configuration))
    for good, sentence in findings:
        say(f"{'ok ' if good else 'fix'}  {sentence}")
    raise typer.Exit(0 if all(good for good, _ in findings) else 1)


async def _examine(configuration: Any) -> list[tuple[bool, str]]:
    from infra.workers.ssh.check import has_image

    facts, problems = await facts_of(configuration, "--key is block:{name}: name a file here")
    gpus, host = facts.get("gpu", []), configuration.hosts[0]
    findings = [(True, f"{host} accepts the login, kernel {facts['kernel'][0]}, {facts['architecture'][0]}")]
    findings += [(True, f"GPU {number}: driver {gpu}") for number, gpu in enumerate(gpus)]
    if has_image(facts):
        findings.append((True, f"image {configuration.image} is there"))
    return findings + ([(False, sentence) for sentence in problems] or [(True, "it is fit to measure on")])
