"""Which GPU computes, and where in the machine it is: told without starting CUDA."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.harness.probes.cpu import ROOT, read_text


def visible_uuid(environ: Mapping[str, str] = os.environ, nvml: Any = None) -> str | None:
    """Return the UUID of CUDA's device 0 without starting CUDA; None if nothing tells it.

    Where the cards of a machine differ, CUDA may number them in another order than NVML: see that it did not.
    """
    first = environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return first
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        try:
            uuid = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(int(first)))
        finally:
            nvml.nvmlShutdown()
    except Exception:  # no number, no such card, no NVML: `open_gpu` says what there is to say
        return None
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def numa_node(bus_id: str | bytes, root: Path = ROOT) -> int | None:
    """Return the memory node of the CPUs that the card hangs on; None where Linux tells none."""
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, rest = text.strip("\0 ").lower().partition(":")  # NVML writes 8 digits of domain, Linux 4
    node = read_text(root / f"sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node")[0].strip()
    return int(node) if node.isdigit() else None
