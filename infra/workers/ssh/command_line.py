"""The command lines of a job and the settings of its container; nothing is run here."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.workers.base.environment import is_loopback, password_fault, plain, secrets
from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.configuration import SshJobConfiguration, ip_address

# Prefect's secrets come into the container by a file: they are never on a command line, in an environment or
# in what `inspect` shows. This file and that of the other variables lie in the box's memory.
SECRETS_AT = "/run/prefect-secrets"  # in the container
HIDDEN = "/dev/shm/{name}"
MARK = "dev.gridbench.measuring"
PORTS = {"http": 80, "https": 443}
RETRIES = 8  # of Prefect's client, each after twice the time: a cut connection of four minutes ends no flow


@dataclass(frozen=True)
class ApiAddress:
    """The Prefect API as the worker reaches it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_loopback(self) -> bool:
        """Return whether only the worker's own machine reaches it."""
        return is_loopback(self.host)

    def through(self, port: int) -> str:
        """Return its URL behind a tunnel's port on the box; a name stays, for the sake of certificates."""
        host = "127.0.0.1" if self.is_loopback else self.host
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}{self.path}"


def api_of(url: str) -> ApiAddress:
    """Parse a URL of the API.

    Raises:
        JobRefused: it is no URL of an API.
    """
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise JobRefused(
            f"PREFECT_API_URL is {url!r}: the worker needs one that starts with http:// or https://."
        )
    return ApiAddress(parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme], parts.path)


def run_command(configuration: SshJobConfiguration, name: str, port: int | None) -> tuple[str, ...]:
    """Return the runtime's arguments for running the container: `run … IMAGE COMMAND…`.

    Args:
        configuration: of the job.
        name: of the container.
        port: of the tunnel on the box; None without one.
    """
    hidden = HIDDEN.format(name=name)
    words = [
        "run",
        "--detach",
        "--name",
        name,
        "--label",
        f"{MARK}={name}",
        "--network",
        "host",
        "--pull",
        "never",
    ]
    if configuration.shared_memory_mib:
        words += ["--shm-size", f"{configuration.shared_memory_mib}m"]
    if configuration.memory_mib:
        words += ["--memory", f"{configuration.memory_mib}m", "--memory-swap", f"{configuration.memory_mib}m"]
    words += gpu_options(configuration)
    for mount in configuration.mounts:
        words += ["--volume", mount]
    if secrets(configuration.env):
        words += ["--volume", f"{hidden}/prefect-secrets:{SECRETS_AT}:ro"]
    for key, value in configuration.labels.items():
        words += ["--label", f"{key}={value}"]
    if port is not None:
        api = api_of(configuration.env.get("PREFECT_API_URL") or "")
        if not api.is_loopback and ip_address(api.host) is None:
            words += ["--add-host", f"{api.host}:127.0.0.1"]
    words += ["--env-file", f"{hidden}/env"]
    return (*words, str(configuration.image), *shlex.split(configuration.command or ""))


def gpu_options(configuration: SshJobConfiguration) -> list[str]:
    """Return the runtime's options for the container's GPUs."""
    if not configuration.gpus:
        return []
    if "podman" in configuration.container_command[-1] or "podman" in configuration.container_command[0]:
        named = ["all"] if configuration.gpus == "all" else _ids(configuration.gpus)
        return [word for gpu in named for word in ("--device", f"nvidia.com/gpu={gpu}")]
    if isinstance(configuration.gpus, list):
        return ["--gpus", f'"device={",".join(configuration.gpus)}"']  # Docker reads the value as CSV
    return ["--gpus", str(configuration.gpus)]


def _ids(gpus: int | str | list[str]) -> list[str]:
    return [str(index) for index in range(gpus)] if isinstance(gpus, int) else list(gpus)


def pull_command(configuration: SshJobConfiguration) -> tuple[str, ...]:
    """Return the runtime's arguments for pulling the image."""
    return ("pull", str(configuration.image))


def env_file(configuration: SshJobConfiguration, port: int | None) -> str:
    """Return the file of the container's variables, a line each, as `--env-file` reads it.

    Raises:
        JobRefused: a value has a line break, or the API's address a password.
    """
    if fault := password_fault(configuration.env.get("PREFECT_API_URL")):
        raise JobRefused(fault)
    env = plain(configuration.env)
    env.setdefault("PREFECT_CLIENT_MAX_RETRIES", str(RETRIES))
    if secrets(configuration.env):
        env["PREFECT_PROFILES_PATH"] = f"{SECRETS_AT}/profiles.toml"
    if port is not None:
        env["PREFECT_API_URL"] = api_of(env.get("PREFECT_API_URL", "")).through(port)
    for name, value in env.items():
        if "\n" in value or "\r" in value:
            raise JobRefused(f"env sets {name} to several lines: a box's container takes one; mount a file.")
    return "".join(f"{name}={value}\n" for name, value in sorted(env.items()))


def secret_profile(env: Mapping[str, str | None]) -> str:
    """Return the file of Prefect's secret settings; empty where there are none."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in secrets(env).items()]
    return "\n".join(['active = "box"', "[profiles.box]", *lines, ""]) if lines else ""
