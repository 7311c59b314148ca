"""The requirements that a box does not meet."""

import json
import re
from collections.abc import Sequence
from typing import Any

from ..base.printable import quoted
from .answers import Facts, once
from .configuration import SshJobConfiguration

KIB_PER_MIB = 1024
PACKAGES = {
    "flock": "util-linux",
    "setsid": "util-linux",
    "xargs": "findutils",
    "tail": "coreutils",
    "ps": "procps",
    "sbatch": "slurm-client",
    "squeue": "slurm-client",
    "scontrol": "slurm-client",
    "scancel": "slurm-client",
}


def unmet_requirements(facts: Facts, configuration: SshJobConfiguration) -> list[str]:
    """Return a sentence for each; `facts` are from `SshBox.check`."""
    problems = [
        f"{tool} is missing: install the package {PACKAGES.get(tool, tool)}."
        for tool in facts.get("missing", [])
    ]
    if configuration.scheduler:
        if facts["runtime"] != ["ok"]:
            said = quoted(once(facts).get("info", ""))
            text = f"Slurm's controller does not answer ({said}): ask the cluster's administrator."
            problems.append(text)
        return problems + _disk(facts, configuration.least_free_mib)
    if facts["runtime"] != ["ok"] and configuration.has_containers:
        problems.append(_no_runtime(configuration.container_command, once(facts).get("info", "")))
        return problems
    if _within(_info(facts), "host", "security", "rootless") and facts.get("lingers") == ["no"]:
        problems.append(
            "podman without root stops containers at the last logout: run `loginctl enable-linger` on the box."
        )
    problems += _disk(facts, configuration.least_free_mib)
    if configuration.has_containers and configuration.pull == "never" and not has_image(facts):
        problems.append(
            f"image {configuration.image} is not on the box and pull is never: load it there, or change pull."
        )
    if configuration.gpus:
        problems += _gpus(facts, configuration)
    return problems


def has_image(facts: Facts) -> bool:
    return any(facts.get("image", []))


def home_of(facts: Facts) -> str:
    return next(iter(facts.get("home", [])), "")


def _no_runtime(command: Sequence[str], message: str) -> str:
    named = " ".join(command)
    if "ermission denied" in message:
        return (
            f"this user is not allowed to use {named}: add the user to the group docker, or set "
            "container_command to sudo and docker."
        )
    if "not found" in message:
        return f"{named} is not installed: install Docker or podman, and name it in container_command."
    if "password" in message:
        return f"{named} asks for a password: allow it without a password."
    return f"{named} does not work: {quoted(message) or 'no output'}."


def _disk(facts: Facts, least_mib: int) -> list[str]:
    problems = []
    for entry in dict.fromkeys(facts.get("free_kib", [])):
        free, _, folder = entry.partition(" ")
        if re.fullmatch(r"[0-9]{1,16}", free) and int(free) // KIB_PER_MIB < least_mib:
            problems.append(
                f"{quoted(folder)} has {int(free) // KIB_PER_MIB} MiB free, less than least_free_mib {least_mib}: "
                "free some space, or lower least_free_mib."
            )
    return problems


def _gpus(facts: Facts, configuration: SshJobConfiguration) -> list[str]:
    gpus, asked = facts.get("gpu", []), configuration.gpus
    if not gpus:
        return ["nvidia-smi finds no GPU: install the NVIDIA driver, or set gpus to 0."]
    problems = []
    required = asked if isinstance(asked, int) else 1 if asked == "all" else len(asked)
    if required > len(gpus):
        problems.append(f"gpus is {asked}, but the box has {len(gpus)}.")
    if configuration.has_containers and not _sees_gpus(_info(facts)):
        runtime = configuration.container_command[-1]
        problems.append(
            f"{runtime} can't give containers access to GPUs: install the NVIDIA container toolkit and restart it."
        )
    return problems


def _info(facts: Facts) -> dict[str, Any]:
    try:
        info = json.loads(once(facts).get("info", ""))
    except (ValueError, RecursionError):  # of a million brackets
        return {}
    return info if isinstance(info, dict) else {}


def _within(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _sees_gpus(info: dict[str, Any]) -> bool:
    """Podman always passes."""
    if "Runtimes" not in info:
        return True
    runtimes, devices = info["Runtimes"], info.get("DiscoveredDevices")
    ids = [_within(device, "ID") for device in devices] if isinstance(devices, list) else []
    has_cdi = any(isinstance(each, str) and "nvidia.com/gpu" in each for each in ids)
    return has_cdi or (isinstance(runtimes, dict) and "nvidia" in runtimes)
