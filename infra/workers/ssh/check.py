"""Whether a box is fit to run a job: a sentence for each thing that is missing, before it is started."""

import json
from typing import Any

from infra.workers.ssh.configuration import SshJobConfiguration

Facts = dict[str, list[str]]
KIB_PER_MIB = 1024
PACKAGES = {
    "flock": "util-linux",
    "setsid": "util-linux",
    "xargs": "findutils",
    "tail": "coreutils",
    "ps": "procps",
}


def unmet_requirements(facts: Facts, asked: SshJobConfiguration) -> list[str]:
    """What a box lacks for a job, a sentence each.

    Args:
        facts: what `SshBox.check` found.
        asked: the job.
    """
    found = [
        f"{tool} is missing: install the package {PACKAGES.get(tool, tool)}."
        for tool in facts.get("missing", [])
    ]
    if facts["runtime"] != ["ok"]:
        found.append(_no_runtime(asked.container_command, facts.get("info", [""])[0]))
        return found
    if _info(facts).get("host", {}).get("security", {}).get("rootless") and facts.get("lingers") == ["no"]:
        found.append(
            "podman without root ends containers at the last logout: run `loginctl enable-linger` there."
        )
    found += _disk(facts, asked.least_free_mib)
    if asked.pull == "never" and not has_image(facts):
        found.append(f"image {asked.image} is not there, and pull is never: bring it there, or change pull.")
    if asked.gpus:
        found += _gpus(facts, asked)
    return found


def has_image(facts: Facts) -> bool:
    """Whether the job's image is on the box."""
    return any(facts.get("image", []))


def _no_runtime(command: list[str], said: str) -> str:
    named = " ".join(command)
    if "ermission denied" in said:
        return (
            f"{named} may not be used by this user: put it into the group docker, or set "
            "container_command to sudo and docker."
        )
    if "not found" in said:
        return f"{named} is not installed: install Docker or podman, and name it in container_command."
    if "password" in said:
        return f"{named} asks for a password: allow it without one."
    return f"{named} does not work: {said.strip()[:200] or 'it says nothing'}."


def _disk(facts: Facts, least_mib: int) -> list[str]:
    found = []
    for entry in dict.fromkeys(facts.get("free_kib", [])):
        free, _, place = entry.partition(" ")
        if free.isdigit() and int(free) // KIB_PER_MIB < least_mib:
            found.append(
                f"{place} has {int(free) // KIB_PER_MIB} MiB free, less than least_free_mib {least_mib}: "
                "free some, or ask for less."
            )
    return found


def _gpus(facts: Facts, asked: SshJobConfiguration) -> list[str]:
    gpus = facts.get("gpu", [])
    if not gpus:
        return ["nvidia-smi finds no GPU: install the NVIDIA driver, or ask for gpus 0."]
    found = []
    wanted = asked.gpus if isinstance(asked.gpus, int) else len(asked.gpus) if asked.gpus != "all" else 1
    if wanted > len(gpus):
        found.append(f"gpus is {asked.gpus}, and the box has {len(gpus)}.")
    if not _sees_gpus(_info(facts)):
        found.append(
            f"{asked.container_command[-1]} can't hand GPUs to containers: install the NVIDIA container "
            "toolkit and restart it."
        )
    return found


def _info(facts: Facts) -> dict[str, Any]:
    try:
        found = json.loads(facts.get("info", ["{}"])[0])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _sees_gpus(info: dict[str, Any]) -> bool:
    """Docker names NVIDIA's runtime or its CDI devices; podman, which says neither, is believed."""
    if "Runtimes" not in info:
        return True
    devices = json.dumps(info.get("DiscoveredDevices") or [])
    return "nvidia" in info["Runtimes"] or "nvidia.com/gpu" in devices
