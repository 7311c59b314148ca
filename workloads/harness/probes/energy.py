"""Joules over a window by counters of CPU packages and GPU, never estimates."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workloads.harness.probes.cpu import ROOT, read_text, whole
from workloads.harness.probes.gpu import Gpu, GpuCounters, NoGpu

GPU_MIN_WINDOW_S = 1.0  # ten steps of its counter: 5 %
GPU_STEP_S = 0.1  # the counter moves about every 100 ms (https://ml.energy/blog/energy/measurement)
CPU_MIN_WINDOW_S = 0.1  # RAPL moves every millisecond
_PACKAGE_MAX_W = (
    1000.0  # above any socket's: a window in which this power could wrap the counter twice is unreadable
)


@dataclass(frozen=True, slots=True)
class EnergyCounters:
    """Energy counters at one instant.

    Attributes:
        at_s: the host's monotonic clock, seconds.
        packages_uj: counter of each CPU package by RAPL zone, microjoules.
        ranges_uj: value at which it wraps, by zone, microjoules.
        missing: reading name to the reason.
    """

    at_s: float
    packages_uj: dict[str, int]
    ranges_uj: dict[str, int]
    gpu: GpuCounters
    missing: dict[str, str]


def counters(gpu: Gpu | None = None, root: Path = ROOT) -> EnergyCounters:
    """Read all energy counters. Never raises."""
    gpu_counters = (gpu or NoGpu("no GPU was requested")).counters()
    at_s = time.perf_counter()
    packages, ranges, why = _packages(root)
    return EnergyCounters(at_s, packages, ranges, gpu_counters, {"cpu_energy_j": why} if why else {})


def delta(before: EnergyCounters, after: EnergyCounters) -> tuple[dict[str, float], dict[str, str]]:
    """Return joules between two readings, and why the absent ones are absent.

    Readings: `cpu_energy_j` of all CPU packages, for all users, without the memory's; `gpu_energy_j` of the
    whole GPU, and `gpu_energy_error_j`, half of the counter's step at the window's mean power.
    """
    values: dict[str, float] = {}
    missing = before.missing | after.missing
    cpu_j, why = _cpu_j(before, after)
    if cpu_j is not None:
        values["cpu_energy_j"] = cpu_j
    else:
        missing.setdefault("cpu_energy_j", why)
    gpu_j, why = _gpu_j(before.gpu, after.gpu)
    if gpu_j is not None:
        values["gpu_energy_j"] = gpu_j
        values["gpu_energy_error_j"] = gpu_j * GPU_STEP_S / 2 / (after.gpu.at_s - before.gpu.at_s)
    else:
        missing["gpu_energy_j"] = why
    return values, missing


def _cpu_j(before: EnergyCounters, after: EnergyCounters) -> tuple[float | None, str]:
    wall_s = after.at_s - before.at_s
    if wall_s < CPU_MIN_WINDOW_S:
        return None, f"a window of {wall_s:.3g} s is under {CPU_MIN_WINDOW_S} s, too short for RAPL"
    if not before.packages_uj or before.packages_uj.keys() != after.packages_uj.keys():
        return None, "the RAPL zones changed within the window"
    total_uj = 0
    for zone, start_uj in before.packages_uj.items():
        range_uj = before.ranges_uj[zone]
        if range_uj < _PACKAGE_MAX_W * 1e6 * wall_s:
            return (
                None,
                f"{zone} wraps at {range_uj / 1e6:.3g} J, so it could have wrapped twice in {wall_s:.3g} s",
            )
        used_uj = after.packages_uj[zone] - start_uj
        total_uj += used_uj if used_uj >= 0 else used_uj + range_uj
    return total_uj / 1e6, ""


def _gpu_j(before: GpuCounters, after: GpuCounters) -> tuple[float | None, str]:
    wall_s = after.at_s - before.at_s
    if why := (before.missing | after.missing).get("gpu_energy_j", ""):
        return None, why
    if wall_s < GPU_MIN_WINDOW_S:
        return (
            None,
            f"a window of {wall_s:.3g} s is under {GPU_MIN_WINDOW_S} s: the counter updates every {GPU_STEP_S} s",
        )
    used_j = after.totals["gpu_energy_j"] - before.totals["gpu_energy_j"]
    if used_j < 0:
        return None, f"the counter went backwards, by {-used_j:.3g} J: the driver was reloaded"
    return used_j, ""


def _packages(root: Path) -> tuple[dict[str, int], dict[str, int], str]:
    """Return all packages' counters and ranges, or why one is unreadable.

    The zone psys includes the packages, and intel-rapl-mmio repeats them, so both are left out.
    """
    folder = root / "sys/class/powercap"
    packages: dict[str, int] = {}
    ranges: dict[str, int] = {}
    zones: list[Path] = []
    with suppress(OSError):
        zones = sorted(path for path in folder.glob("intel-rapl:*") if path.name.count(":") == 1)
    for zone in zones:
        if not read_text(zone / "name")[0].startswith("package"):
            continue
        for name, into in (("energy_uj", packages), ("max_energy_range_uj", ranges)):
            text, why = read_text(zone / name)
            try:
                into[zone.name] = whole(text)
            except ValueError:
                if "Permission denied" in why:
                    why += ": only root can read it since CVE-2020-8694; ask an administrator to chmod it"
                return {}, {}, why or f"{zone / name} holds {text[:20]!r}, which is not a number"
    return packages, ranges, "" if packages else f"no CPU package under {folder}: most VMs do not expose one"
