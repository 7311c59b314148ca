"""The last-level cache: whether a step finds its data there, and emptying it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from workloads.harness.engine.device import Device, UnsupportedError
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.probes.cpu import ROOT, affinity, read_text, whole
from workloads.harness.records.record import Cache

# If the data is four times the cache, at most a quarter of it can have stayed there since the step before; in
# a cache that replaces the oldest line, none.
TIMES = 4
# Cache sizes to read to empty it. A GPU's cache is in parts that do not strictly replace the oldest line. A
# CPU's nearly does, and can be so large that more would take longer than the samples.
FLUSHED_TIMES = {"cuda": 4, "cpu": 2}
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
Before = Callable[[int, Any], None]


def cache_of(device: Device, working_set_bytes: float, cold: bool) -> Cache:
    if device.is_host:
        size, why = last_level_bytes()
    else:
        import torch

        size = int(torch.cuda.get_device_properties(device.torch_device).L2_cache_size) or None
        why = "" if size else "CUDA reports no L2 cache size"
    if cold and size is None:
        raise UnsupportedError(
            f"--cold-cache needs the size of the last-level cache, which is unknown ({why}); measure without it"
        )
    return Cache(state(working_set_bytes, size, cold), int(working_set_bytes), size, why)


def state(working_set_bytes: float, last_level_bytes: int | None, cold: bool = False) -> str:
    """Return `cold`, `n/a` for data much larger than the cache, else `warm`."""
    if cold:
        return "cold"
    return "n/a" if last_level_bytes and working_set_bytes >= TIMES * last_level_bytes else "warm"


def last_level_bytes(root: Path = ROOT, cpus: Collection[int] | None = None) -> tuple[int | None, str]:
    """Return the sum of our CPUs' last-level caches, or None and the reason."""
    sizes: dict[str, int] = {}
    folder = root / "sys/devices/system/cpu"
    for cpu in sorted(affinity() if cpus is None else cpus):
        levels = [_level(index) for index in sorted(folder.glob(f"cpu{cpu}/cache/index*"))]
        readable = [level for level in levels if level]
        if not readable:
            return None, f"{folder / f'cpu{cpu}' / 'cache'}: no readable data cache"
        _, shared, size = max(readable)
        sizes[shared or str(cpu)] = size
    return (sum(sizes.values()), "") if sizes else (None, "this process has no CPU")


def flushed(before: Before, device: Device, size_bytes: int) -> Before:
    """Extend `before` by reads that empty the cache; writes would have to go back to memory in the step."""
    import torch

    numbers = FLUSHED_TIMES[device.name] * size_bytes // torch.float32.itemsize
    buffer = torch.zeros(numbers, dtype=torch.float32, device=device.torch_device)

    def run(steps: int, result: Any) -> None:
        before(steps, result)
        buffer.sum()

    return run


def single_steps(rules: Rules) -> Rules:
    return replace(rules, block_over_timer=0.0, block_min_s=0.0)


def _level(index: Path) -> tuple[int, str, int] | None:
    level, kind, size, shared = (
        read_text(index / name)[0].strip() for name in ("level", "type", "size", "shared_cpu_list")
    )
    if kind not in ("Data", "Unified"):
        return None
    try:
        number, unit = (size[:-1], UNITS[size[-1]]) if size[-1:] in UNITS else (size, 1)
        return (whole(level), shared, whole(number) * unit) if whole(number) > 0 else None
    except ValueError:
        return None
