"""Host memory: our peak, the bytes left to us, and out-of-memory kills."""

import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from workloads.harness.probes.cpu import ROOT, cgroup_folders, keyed, read_text, whole

_NO_LIMIT_BYTES = 2**62  # cgroup v1 says "none" with the largest multiple of a page under 2**63


def peak_rss_bytes(root: Path = ROOT) -> int:
    """Return the peak of this process's resident memory.

    It prefers VmHWM: Linux hands ru_maxrss on through exec, so that the fresh child of a parent of 400 MB
    claims 400 MB itself (https://jkz.wtf/random-linux-oddity-1-ru_maxrss; seen here too).
    """
    for line in read_text(root / "proc/self/status")[0].splitlines():
        if line.startswith("VmHWM:"):
            with suppress(ValueError):
                return whole(line.removeprefix("VmHWM:").removesuffix("kB")) * 1024
    unit = 1 if sys.platform == "darwin" else 1024  # macOS gives bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_bytes() -> int | None:
    try:
        import psutil

        return int(psutil.Process().memory_info().rss)
    except Exception:
        return None


def host_available_bytes() -> int | None:
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except Exception:
        return None


def available_bytes(root: Path = ROOT, host: Callable[[], int | None] = host_available_bytes) -> int | None:
    """Return the bytes that the machine and our cgroups still leave us, if anything is readable.

    File pages that a cgroup could drop at once (inactive_file) count as free.
    """
    cgroups = (allowed - used for allowed, used in _cgroups_bytes(root))
    left = [free for free in (host(), *cgroups) if free is not None]
    return max(min(left), 0) if left else None


def total_bytes(root: Path = ROOT) -> int | None:
    limits = [machine_bytes(root), *(allowed for allowed, _ in _cgroups_bytes(root))]
    return min((limit for limit in limits if limit is not None), default=None)


def machine_bytes(root: Path = ROOT) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d{1,15}) kB", read_text(root / "proc/meminfo")[0], re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def oom_kills(root: Path = ROOT) -> int | None:
    """Count the kernel's kills for lack of memory since boot; None if unknown.

    By our own cgroup (a child's kill counts there), else by the whole machine.
    """
    for folder in cgroup_folders("memory", root):
        for name in ("memory.events", "memory.oom_control"):
            counts = keyed(read_text(folder / name)[0])
            if "oom_kill" in counts:
                return counts["oom_kill"]
    return keyed(read_text(root / "proc/vmstat")[0]).get("oom_kill")


def readings(
    root: Path = ROOT, host: Callable[[], int | None] = host_available_bytes
) -> tuple[dict[str, float], dict[str, str]]:
    values: dict[str, float] = {"peak_rss_bytes": float(peak_rss_bytes(root))}
    missing: dict[str, str] = {}
    for name, value, why in (
        (
            "available_bytes",
            available_bytes(root, host),
            "neither psutil nor a cgroup reports the memory left",
        ),
        (
            "oom_kills",
            oom_kills(root),
            f"neither this process's cgroups nor {root / 'proc/vmstat'} counts oom_kill",
        ),
    ):
        if value is None:
            missing[name] = why
        else:
            values[name] = float(value)
    return values, missing


def _cgroups_bytes(root: Path) -> Iterator[tuple[int, int]]:
    """Return limit and use of every limited cgroup on our path; memory.high limits, too."""
    for folder in cgroup_folders("memory", root):
        stat = keyed(read_text(folder / "memory.stat")[0])
        for limit, usage, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.high", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with suppress(ValueError):  # "max", or a file that isn't there
                allowed = whole(read_text(folder / limit)[0])
                used = whole(read_text(folder / usage)[0]) - stat.get(cache, 0)
                if allowed < _NO_LIMIT_BYTES:
                    yield allowed, max(used, 0)
