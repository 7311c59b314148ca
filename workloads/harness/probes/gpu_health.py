"""A card's report of its faults and links, as numbers; read under load, right after the samples.

NVML gives all but the XID errors, which only the kernel's log has.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads.harness.probes.gpu_place import link_states

HEALTH = (
    "gpu_xid_errors",  # in the kernel's log since boot
    "gpu_ecc_uncorrected",  # since the driver was loaded
    "gpu_ecc_uncorrected_total",  # in the card's life
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
    "gpu_power_limit_share",  # of the limit that the card was made for
    "gpu_persistence",
    "gpu_cards",  # that NVML sees in this machine
)
KERNEL_LOG = Path("/dev/kmsg")
_LONGEST_LOG_BYTES = 4 << 20
_UNCORRECTED, _SINCE_LOAD, _IN_ALL = 1, 0, 1  # nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t


def health_questions(nvml: Any, gpu: Any, log: Path = KERNEL_LOG) -> dict[str, Callable[[], Any]]:
    """Return the questions behind `HEALTH`; each raises if the card or the driver can't answer it."""

    def ecc(counter: int) -> int:
        return int(nvml.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, counter))

    def rows(place: int) -> int:
        return int(nvml.nvmlDeviceGetRemappedRows(gpu)[place])

    return {
        "gpu_xid_errors": lambda: xid_errors(nvml.nvmlDeviceGetPciInfo(gpu).busId, log),
        "gpu_ecc_uncorrected": lambda: ecc(_SINCE_LOAD),
        "gpu_ecc_uncorrected_total": lambda: ecc(_IN_ALL),
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
        "gpu_power_limit_share": lambda: (
            nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu)
        ),
        "gpu_persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(gpu),
        "gpu_cards": lambda: nvml.nvmlDeviceGetCount(),
    }


def xid_errors(bus_id: str | bytes, log: Path = KERNEL_LOG) -> int:
    """Return how many XID errors the kernel's log has for the card at this PCI address.

    Raises:
        OSError: the log can't be read; most containers and users can't.
    """
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, place = text.strip("\0 ").lower().partition(":")  # NVML writes 8 digits of domain, the log 4
    slot = place.partition(".")[0]
    found = re.compile(rb"NVRM: Xid \(PCI:([0-9a-f]+):" + re.escape(slot.encode()) + rb"[.\d]*\): \d+", re.I)
    return sum(int(of, 16) == int(domain, 16) for of in found.findall(_kernel_log(log)))


def _kernel_log(log: Path) -> bytes:
    """Return the log as it is now: /dev/kmsg gives one line a read, and would wait for the next one."""
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
