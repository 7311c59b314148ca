"""The command lines of a job."""

import hashlib
import json
import shlex
from collections.abc import Mapping

from ..base.environment import password_fault, plain, secrets
from ..base.job_configuration import JobRefused
from ..brand import BRAND
from ..processes.processes import without_proxy
from .configuration import SshJobConfiguration

# Prefect's secrets come into the container by a file: they are never on a command line, in an environment or
# in the output of `inspect`. This file and that of the other variables are in the box's memory only.
SECRETS_AT = "/run/prefect-secrets"  # in the container
HIDDEN = "/dev/shm/{name}"
ROOT = "/api"  # of the proxy at the near end of a tunnel
PROFILE = "box"
TOKEN = "PREFECT_API_AUTH_STRING"  # the container's variable for the token of its tunnel
RETRIES = 8  # of Prefect's client, with doubling pauses: a connection lost for four minutes ends no flow


def run_command(
    configuration: SshJobConfiguration, name: str, port: int | None, home: str = ""
) -> tuple[str, ...]:
    """Each user of the box has a separate cache, by its `home`."""
    hidden = HIDDEN.format(name=name)
    words = ["run", "--detach", "--name", name, "--label", f"{BRAND.container_label}={name}"]
    words += ["--network", "host", "--pull", "never"]
    if configuration.shared_memory_mib:
        words += ["--shm-size", f"{configuration.shared_memory_mib}m"]
    if configuration.memory_mib:
        words += ["--memory", f"{configuration.memory_mib}m", "--memory-swap", f"{configuration.memory_mib}m"]
    words += gpu_options(configuration)
    if configuration.keep:
        words += ["--volume", f"{kept_volume(home)}:{BRAND.cache_path}"]
    for mount in configuration.mounts:
        words += ["--volume", mount]
    if port is not None or secrets(configuration.env):
        words += ["--volume", f"{hidden}/prefect-secrets:{SECRETS_AT}:ro"]
    for key, value in configuration.labels.items():
        words += ["--label", f"{key}={value}"]
    words += ["--env-file", f"{hidden}/env"]
    return (*words, str(configuration.image), *shlex.split(configuration.command or ""))


def kept_volume(home: str) -> str:
    return f"{BRAND.name}-kept-{hashlib.sha256(home.encode()).hexdigest()[:12]}"


def gpu_options(configuration: SshJobConfiguration) -> list[str]:
    if not configuration.gpus:
        return []
    if "podman" in configuration.container_command[-1] or "podman" in configuration.container_command[0]:
        named = ["all"] if configuration.gpus == "all" else _ids(configuration.gpus)
        return [word for gpu in named for word in ("--device", f"nvidia.com/gpu={gpu}")]
    if isinstance(configuration.gpus, list):
        return ["--gpus", f'"device={",".join(configuration.gpus)}"']  # Docker reads the value as CSV
    return ["--gpus", str(configuration.gpus)]


def visible_gpus(gpus: int | str | list[str]) -> dict[str, str]:
    return {} if gpus == "all" else {"CUDA_VISIBLE_DEVICES": ",".join(_ids(gpus))}


def _ids(gpus: int | str | list[str]) -> list[str]:
    return [str(index) for index in range(gpus)] if isinstance(gpus, int) else list(gpus)


def pull_command(configuration: SshJobConfiguration) -> tuple[str, ...]:
    return ("pull", str(configuration.image))


def env_file(configuration: SshJobConfiguration, name: str, port: int | None) -> str:
    """Return the job's variables as `--env-file` reads them.

    Raises:
        JobRefused: a value has a line break, or the API's address a password.
    """
    env = plain(configuration.env)
    env.setdefault("PREFECT_CLIENT_MAX_RETRIES", str(RETRIES))
    if not configuration.has_containers and not configuration.scheduler:  # Slurm shows a job its own
        env = visible_gpus(configuration.gpus) | env
    if port is not None:
        env["PREFECT_API_URL"] = f"http://127.0.0.1:{port}{ROOT}"
        if configuration.has_containers:  # its runtime can set proxies by its own settings
            env |= without_proxy(env)
    elif fault := password_fault(env.get("PREFECT_API_URL")):
        raise JobRefused(fault)
    if port is not None or secrets(configuration.env):
        hidden = f"{HIDDEN.format(name=name)}/prefect-secrets"
        env["PREFECT_PROFILES_PATH"] = (
            f"{SECRETS_AT if configuration.has_containers else hidden}/profiles.toml"
        )
    for name, value in env.items():
        if "\n" in value or "\r" in value:
            raise JobRefused(
                f"env sets {name} to several lines, but a variable on a box has one line: mount a file."
            )
    return "".join(f"{name}={value}\n" for name, value in sorted(env.items()))


def secret_profile(env: Mapping[str, str | None], token: str | None) -> str:
    """Return the file of Prefect's secret settings, or an empty text.

    The tunnel's `token` replaces all secrets; None without a tunnel.
    """
    named = secrets(env) if token is None else {TOKEN: token}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in named.items()]
    return "\n".join([f'active = "{PROFILE}"', f"[profiles.{PROFILE}]", *lines, ""]) if lines else ""
