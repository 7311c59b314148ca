"""MIG: a card's slices, and a slice's share of its card."""

from contextlib import suppress
from typing import Any


def whole_card(nvml: Any, gpu: Any) -> Any:
    with suppress(Exception):  # a driver without MIG
        if _is_slice(nvml, gpu):
            return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu)
    return gpu


def first_slice(nvml: Any, gpu: Any) -> Any:
    """Return a MIG card's first slice, or the card itself.

    CUDA C++ Programming Guide, environment variables: only a single MIG instance is enumerated.
    """
    with suppress(Exception):  # no MIG, or no slice yet
        if nvml.nvmlDeviceGetMigMode(gpu)[0]:
            return nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    return gpu


def mig_slice(nvml: Any, gpu: Any) -> dict[str, Any] | None:
    """Return a slice's share of its card; None for a whole card.

    `compute_share` is of as many compute slices as a card can have MIG devices; `memory_share` is of the
    card's reported bytes. `of` is the card's UUID.
    """
    try:
        if not _is_slice(nvml, gpu):
            return None
    except Exception:  # a driver without MIG
        return None
    card, parts = whole_card(nvml, gpu), nvml.nvmlDeviceGetAttributes(gpu)
    found: dict[str, Any] = {
        "profile": _profile(parts),
        "multiprocessors": int(parts.multiprocessorCount),
        "memory_bytes": int(parts.memorySizeMB) << 20,
    }
    with suppress(Exception):
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(card)
        found["compute_share"] = parts.computeInstanceSliceCount / most
    with suppress(Exception):
        found["memory_share"] = found["memory_bytes"] / nvml.nvmlDeviceGetMemoryInfo(card).total
    with suppress(Exception):
        uuid = nvml.nvmlDeviceGetUUID(card)
        found["of"] = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
    return found


def mig_profiles(nvml: Any, gpu: Any) -> list[str]:
    """Return the profiles of a card's slices; raise NVML's error without MIG."""
    card = whole_card(nvml, gpu)
    if not nvml.nvmlDeviceGetMigMode(card)[0]:
        return []
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        with suppress(Exception):  # NVML has no slice of this number
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)
            found.append(_profile(nvml.nvmlDeviceGetAttributes(part)))
    return found


def _is_slice(nvml: Any, gpu: Any) -> bool:
    found = nvml.nvmlDeviceIsMigDeviceHandle(gpu)  # pynvml returns ctypes' integer
    return bool(getattr(found, "value", found))


def _profile(parts: Any) -> str:
    """Return `1g.10gb`, or `1c.3g.40gb` for a part."""
    compute, whole = int(parts.computeInstanceSliceCount), int(parts.gpuInstanceSliceCount)
    part = f"{compute}c." if compute != whole else ""
    return f"{part}{whole}g.{round(parts.memorySizeMB / 1024)}gb"
