"""A card's faults and links, read under load right after the samples.

XID errors are only in the kernel's log; NVML has the rest.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ctypes import byref
from pathlib import Path
from typing import Any

from workloads.harness.probes.cpu import ROOT
from workloads.harness.probes.gpu_place import cards_on_bus, link_states

HEALTH = (
    "gpu_xid_errors",  # in the kernel's log since boot
    "gpu_ecc_uncorrected",  # since the driver was loaded
    "gpu_ecc_uncorrected_total",  # in the card's life
    "gpu_sram_threshold_exceeded",  # 1: more faults of its caches than NVIDIA's field diagnostic allows
    "gpu_rows_remapped",  # for uncorrectable errors
    "gpu_remap_pending",  # 1: a reset is needed before it takes effect
    "gpu_remap_failed",  # 1: no spare row was left
    "gpu_pages_retired_pending",  # 1, of cards older than Ampere
    "gpu_pcie_gen",
    "gpu_pcie_gen_max",
    "gpu_pcie_width",
    "gpu_pcie_width_max",
    "gpu_nvlinks_up",
    "gpu_nvlinks",
    "gpu_fabric_state",  # of the registration with NVSwitch: 1 not started, 2 in progress, 3 completed
    "gpu_fabric_status",  # how the registration ended, an nvmlReturn_t: 0 is success
    "gpu_fabric_degraded",  # 1: its bandwidth to NVSwitch is reduced
    "gpu_power_limit_share",  # of the limit that the card was made for
    "gpu_persistence",
    "gpu_cards",  # that NVML sees in this machine
    "gpu_cards_on_bus",  # that Linux sees: a container sees all of its host here
)
KERNEL_LOG = Path("/dev/kmsg")
_LONGEST_LOG_BYTES = 4 << 20
XID = "gpu_xid_"  # and the code, for each code in the kernel's log: how often
_UNCORRECTED, _SINCE_LOAD, _IN_ALL = 1, 0, 1  # nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t
_FABRIC_NOT_SUPPORTED = 0  # nvml.h: NVML_GPU_FABRIC_STATE_…
_DEGRADED_BITS, _IS_DEGRADED, _IS_NOT_DEGRADED = (
    0x3,
    1,
    2,
)  # nvml.h: NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_…


def health_questions(
    nvml: Any, gpu: Any, log: Path = KERNEL_LOG, root: Path = ROOT
) -> dict[str, Callable[[], Any]]:
    """Return the questions behind `HEALTH`; each raises without an answer."""

    def ecc(counter: int) -> int:
        return int(nvml.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, counter))

    def rows(place: int) -> int:
        return int(nvml.nvmlDeviceGetRemappedRows(gpu)[place])

    def xids() -> Counter[int]:
        return xid_codes(nvml.nvmlDeviceGetPciInfo(gpu).busId, log)

    return {
        "gpu_xid_errors": lambda: xids().total(),
        "xids": lambda: {str(code): count for code, count in sorted(xids().items())},
        "gpu_ecc_uncorrected": lambda: ecc(_SINCE_LOAD),
        "gpu_ecc_uncorrected_total": lambda: ecc(_IN_ALL),
        "gpu_sram_threshold_exceeded": lambda: _sram(nvml, gpu).bThresholdExceeded,
        "gpu_rows_remapped": lambda: rows(1),
        "gpu_remap_pending": lambda: rows(2),
        "gpu_remap_failed": lambda: rows(3),
        "gpu_pages_retired_pending": lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu),
        "gpu_pcie_gen": lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
        "gpu_pcie_gen_max": lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
        "gpu_pcie_width": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
        "gpu_pcie_width_max": lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
        "gpu_nvlinks_up": lambda: sum(link_states(nvml, gpu)),
        "gpu_nvlinks": lambda: len(link_states(nvml, gpu)),
        "gpu_fabric_state": lambda: _fabric(nvml, gpu).state,
        "gpu_fabric_status": lambda: _fabric(nvml, gpu).status,
        "gpu_fabric_degraded": lambda: _is_degraded(_fabric(nvml, gpu).healthMask),
        "gpu_power_limit_share": lambda: (
            nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu)
        ),
        "gpu_persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(gpu),
        "gpu_cards": lambda: nvml.nvmlDeviceGetCount(),
        "gpu_cards_on_bus": lambda: _on_bus(root),
    }


def xid_codes(bus_id: str | bytes, log: Path = KERNEL_LOG) -> Counter[int]:
    """Count XID errors in the kernel's log for the card at this PCI address, or raise OSError."""
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, place = text.strip("\0 ").lower().partition(":")  # NVML writes 8 digits of domain, the log 4
    slot = place.partition(".")[0]
    found = re.compile(
        rb"NVRM: Xid \(PCI:([0-9a-f]+):" + re.escape(slot.encode()) + rb"[.\d]*[^)]*\): (\d+)", re.I
    )
    return Counter(
        int(code) for of, code in found.findall(_kernel_log(log)) if int(of, 16) == int(domain, 16)
    )


def _sram(nvml: Any, gpu: Any) -> Any:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(gpu, byref(status))
    return status


def _on_bus(root: Path) -> int:
    cards = cards_on_bus(root)
    if cards is None:
        raise LookupError(f"{root / 'sys/bus/pci/devices'} does not exist")
    return len(cards)


def _fabric(nvml: Any, gpu: Any) -> Any:
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu, byref(info))
    if info.state == _FABRIC_NOT_SUPPORTED:
        raise LookupError("the card is in no NVSwitch fabric")
    return info


def _is_degraded(mask: int) -> int:
    found = {_IS_DEGRADED: 1, _IS_NOT_DEGRADED: 0}.get(mask & _DEGRADED_BITS)
    if found is None:
        raise LookupError("the driver does not report it")
    return found


def _kernel_log(log: Path) -> bytes:
    """Return the present log; /dev/kmsg gives one line a read, then waits."""
    lines, size = [], 0
    handle = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with suppress(BlockingIOError):
            while size < _LONGEST_LOG_BYTES:
                try:
                    line = os.read(handle, 8192)
                except BrokenPipeError:  # this line was overwritten by a new one: go on with the next
                    continue
                if not line:
                    break
                lines.append(line)
                size += len(line)
    finally:
        os.close(handle)
    return b"".join(lines)
