"""The GPU that computes, its place and links, without starting CUDA."""

import importlib
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.harness.probes.cpu import ROOT, read_text
from workloads.harness.probes.gpu_slice import first_slice

MOST_LINKS = 18  # nvml.h: NVML_NVLINK_MAX_LINKS
_NVIDIA = "0x10de"  # pci.ids
_GPU_CLASSES = ("0x0300", "0x0302")  # pci.ids: VGA controller, 3D controller
# nvml.h: nvmlGpuTopologyLevel_t, in the words of `nvidia-smi topo`
_LEVELS = {0: "internal", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def visible_uuid(environ: Mapping[str, str] = os.environ, nvml: Any = None) -> str | None:
    """Return the UUID of CUDA's device 0 without starting CUDA; None if unknown.

    If the cards of a machine differ, CUDA can number them in another order than NVML: check the result later.
    """
    first = environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return first
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        try:
            uuid = nvml.nvmlDeviceGetUUID(first_slice(nvml, nvml.nvmlDeviceGetHandleByIndex(int(first))))
        finally:
            nvml.nvmlShutdown()
    except Exception:  # no number, no such card, no NVML: `open_gpu` reports the reason
        return None
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def cards_on_bus(root: Path = ROOT) -> list[str] | None:
    """Return the PCI addresses of GPUs with NVIDIA's driver or none.

    A card with another driver, such as vfio-pci for a virtual machine, is not this machine's. A container
    sees all cards of its host here.
    """
    folder = root / "sys/bus/pci/devices"
    if not folder.is_dir():
        return None
    return [place.name for place in sorted(folder.iterdir()) if _is_card(place)]


def _is_card(place: Path) -> bool:
    kind, maker = (read_text(place / name)[0].strip().lower() for name in ("class", "vendor"))
    driver = os.path.basename(os.path.realpath(place / "driver")) if (place / "driver").exists() else "nvidia"
    return maker == _NVIDIA and kind.startswith(_GPU_CLASSES) and driver == "nvidia"


def numa_node(bus_id: str | bytes, root: Path = ROOT) -> int | None:
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, rest = text.strip("\0 ").lower().partition(":")  # NVML writes 8 digits of domain, Linux 4
    node = read_text(root / f"sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node")[0].strip()
    return int(node) if node.isdigit() else None


def link_states(nvml: Any, gpu: Any) -> list[bool]:
    """Return whether each NVLink is up; raise NVML's error without any."""
    states = []
    for link in range(MOST_LINKS):
        try:
            states.append(nvml.nvmlDeviceGetNvLinkState(gpu, link) == 1)
        except Exception:
            if link == 0:
                raise
            break  # the card has no more of them
    return states


def other_gpus(nvml: Any, gpu: Any) -> dict[str, int]:
    """Count other visible cards by PCIe distance, from `internal` and `PIX` to `SYS`; no UUIDs."""
    own, found = nvml.nvmlDeviceGetUUID(gpu), Counter[str]()
    for index in range(nvml.nvmlDeviceGetCount()):
        other = nvml.nvmlDeviceGetHandleByIndex(index)
        if nvml.nvmlDeviceGetUUID(other) != own:
            level = nvml.nvmlDeviceGetTopologyCommonAncestor(gpu, other)
            found[_LEVELS.get(level, str(level))] += 1
    return dict(sorted(found.items()))
