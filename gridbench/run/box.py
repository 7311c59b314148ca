"""Boxes given by address, `--on ssh://USER@HOST`."""

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from gridbench.machines.reached import configuration_of, facts_of, said_plainly
from tasks.errors import GridbenchError
from tasks.planning.hardware import RENTED_POOL, Hardware, load_gpus, names_of
from tasks.planning.request import RunRequest
from tasks.plausibility.gpu_names import models_called
from tasks.schema import validated

SCHEME = "ssh://"
EXAMPLE = "ssh://USER@HOST, ssh://HOST:PORT?usd=1.99"
BOX = "your own box with torch, ssh://USER@HOST?usd=1.99"  # in the help of commands
SAYS = ("usd", "python")  # parameters of an address
UNKNOWN_USD = 1.0
START_S, FIRST_START_S = 20.0, 1200.0  # the first lane on a box installs its packages
KIB = re.compile(r"[0-9]{1,16}")
LONGEST_NAME = 100  # characters of a processor's name
GB_PER_KIB = 1024 / 1e9


def with_boxes(request: RunRequest) -> RunRequest:
    addresses = [name for name in request.hardware if name.startswith(SCHEME)]
    if not addresses:
        return request
    found = {address: ask(address) for address in dict.fromkeys(addresses)}
    names = tuple(found[name].name if name in found else name for name in request.hardware)
    return request.model_copy(update={"hardware": names, "found": tuple(found.values())})


def ask(address: str) -> Hardware:
    host, says = read(address)
    variables: dict[str, Any] = {"hosts": [host], "container_command": "none"}
    variables |= {"python": says["python"]} if "python" in says else {}
    facts = _facts(variables)
    return hardware_of(host, facts, says, variables)


def read(address: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse `ssh://[USER@]HOST[:PORT][?usd=…]` into an entry of `hosts` and its parameters.

    Errors quote only parameters, never the address.
    """
    from infra.workers.base.job_configuration import JobRefused
    from infra.workers.ssh.client_config import hop

    where, _, query = address.partition("?")
    says = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    if wrong := next((name for name in says if name not in SAYS), None):
        raise GridbenchError(f"--on ssh://… has the parameter {wrong!r}; allowed are {' and '.join(SAYS)}")
    if "usd" in says and not re.fullmatch(r"\d+(\.\d+)?", says["usd"]):
        raise GridbenchError(f"--on ssh://… has usd={says['usd']}; give USD an hour, such as usd=1.99")
    try:
        host = hop(where.removesuffix("/"))
    except JobRefused:
        raise GridbenchError(f"--on ssh://… is not a valid address; write {EXAMPLE}") from None
    return host.model_dump(exclude_none=True), says


def hardware_of(
    host: Mapping[str, Any],
    facts: Mapping[str, list[str]],
    says: Mapping[str, str],
    variables: Mapping[str, Any],
) -> Hardware:
    """Return a box as a hardware file would describe it; `says` are parameters of its address."""
    gpus = [entry.partition(",")[2].strip()[:LONGEST_NAME] for entry in facts.get("gpu", [])]
    models = models_called(gpus[0], names_of(load_gpus())) if gpus else []
    title = f"{len(gpus)} x {gpus[0]}" if gpus else next(iter(facts.get("cpu", [])), "CPU")[:LONGEST_NAME]
    port = f"-{host['port']}" if host.get("port", 22) != 22 else ""
    memory_kib = next((int(kib) for kib in facts.get("memory_kib", []) if KIB.fullmatch(kib)), 0)
    source = "given with --on" if "usd" in says else "unknown; give it as ssh://…?usd=1.99"
    raw = {
        "name": re.sub(r"[^A-Za-z0-9.-]", "-", str(host["address"])) + port,
        "title": f"{title} at {host['address']}",
        "pool": RENTED_POOL,
        "device": "cuda" if gpus else "cpu",
        "gpus": len(gpus),
        "gpu": models[0] if len(models) == 1 else None,
        "memory_gb": memory_kib * GB_PER_KIB or None,
        "price": {
            "usd_per_hour": float(says.get("usd", UNKNOWN_USD)),
            "purchase": "assumption",
            "source": source,
            "date": datetime.now(UTC).date(),
        },
        "start_s": START_S,
        "start_within_s": FIRST_START_S,
        "job_variables": {**variables, "gpus": "all" if gpus else 0},
    }
    return validated(Hardware, raw, f"box {host['address']}")


def _facts(variables: Mapping[str, Any]) -> dict[str, list[str]]:
    with said_plainly():
        job = configuration_of(variables)
        no_blocks = "the SSH key is block:{name}, which only a worker can read; name a file in ~/.ssh/config"
        facts, problems = asyncio.run(facts_of(job, no_blocks))
    if problems:
        raise GridbenchError(
            f"box {job.hosts[0]} does not meet the requirements: {' '.join(problems)}".rstrip(".")
        )
    return facts
