"""CPU activity besides our work: steal, others' load, throttling, pressure; and our cores.

`root` can be a folder with a fake /proc and /sys.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
MIN_WINDOW_S = 0.5  # the kernel books CPU time in ticks of up to 10 ms: 2 % of a core in this window
_OF_MACHINE_TIME = ("steal_share", "foreign_load_share", "foreign_cores", "idle_cpus")
# The shorter a piece, the likelier that one of them was not disturbed: on a quiet shared VM two readings of 5
# pieces of 4 ms differed by over 3 % in a third of the tries, of 20 pieces of 1 ms in one of 40. On two cores with
# eight busy processes none of 100 such pairs did, whether of 200 pieces of 0.25 ms or of 80 of 1.2 ms.
_CANARY_PIECES, _CANARY_S = 100, 0.08  # at least
_CANARY_STEPS = 5_000


@dataclass(frozen=True, slots=True)
class CpuCounters:
    """Cumulative counters at one instant.

    Attributes:
        at_s: the host's monotonic clock, seconds.
        totals: since boot or the process's start; seconds if the name ends in `_s`.
        missing: reading name to the reason.
    """

    at_s: float
    totals: dict[str, float]
    missing: dict[str, str]


def own_cpu_s() -> float:
    """Of this process and its children, living and gone."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    with suppress(Exception):  # a child can end at any moment, and psutil can be absent
        import psutil

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                times = child.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def counters(root: Path = ROOT, own_s: Callable[[], float] = own_cpu_s) -> CpuCounters:
    """Read all counters. Never raises.

    `own_s` returns our CPU seconds; a rank of several passes its whole group's.
    """
    at_s = time.perf_counter()
    switches = float(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw)
    totals, missing = {"own_s": own_s(), "involuntary_switches": switches}, dict[str, str]()
    for source, names in (
        (_machine_time, _OF_MACHINE_TIME),
        (_pressure, ("pressure_some_share",)),
        (_throttling, ("cgroup_throttled_s", "cgroup_throttled_count")),
    ):
        counters, why = source(root)
        totals |= counters
        missing |= dict.fromkeys(names, why) if not counters else {}
    return CpuCounters(at_s, totals, missing)


def delta(before: CpuCounters, after: CpuCounters) -> tuple[dict[str, float], dict[str, str]]:
    """Return readings of the window between two counters, and reasons for absent ones.

    Readings: `steal_share` of all CPU time; `foreign_load_share` of the machine's CPU time, used by others
    than our process and its children, and `foreign_cores`, the same in cores; `idle_cpus`;
    `cgroup_throttled_s` and `…_count`; `pressure_some_share` of the time, in which a task waited for a CPU;
    `involuntary_switches`.
    """
    wall_s = after.at_s - before.at_s
    both = before.totals.keys() & after.totals.keys()
    change = {name: after.totals[name] - before.totals[name] for name in both}
    plain = ("cgroup_throttled_s", "cgroup_throttled_count", "involuntary_switches")
    values = {name: change[name] for name in plain if name in change}
    missing = before.missing | after.missing
    if "pressure_s" in change and wall_s > 0:
        values["pressure_some_share"] = min(change["pressure_s"] / wall_s, 1.0)
    if "busy_s" in change and wall_s < MIN_WINDOW_S:
        why = f"a window of {wall_s:.3g} s is under {MIN_WINDOW_S} s: too short for counters in ticks"
        missing |= dict.fromkeys(_OF_MACHINE_TIME, why)
    elif "busy_s" in change:
        values["steal_share"] = change["steal_s"] / max(change["machine_s"], 1e-9)
        values["foreign_cores"] = max(change["busy_s"] - change["own_s"], 0.0) / wall_s
        values["idle_cpus"] = max(after.totals["logical_cpus"] - change["busy_s"] / wall_s, 0.0)
        values["foreign_load_share"] = min(values["foreign_cores"] / after.totals["logical_cpus"], 1.0)
    for name in [name for name, value in values.items() if value < 0]:
        missing[name] = f"the counter went backwards, by {-values.pop(name):.3g}"
    return values, missing


def canary_s(clock: Callable[[], float] = time.perf_counter) -> float:
    """Time a fixed loop of plain arithmetic: seconds of the best piece, which was not interrupted.

    Right after matrix products the first tens of milliseconds can be a third slower; fewer pieces would show
    a change that no sample had.
    """
    pieces: list[float] = []
    begun: float | None = None
    while True:
        started, x = clock(), 1
        begun = started if begun is None else begun
        for _ in range(_CANARY_STEPS):
            x = (x * 5 + 1) & 0xFFFF
        ended = clock()
        pieces.append(ended - started)
        if len(pieces) >= _CANARY_PIECES and ended - begun >= _CANARY_S:
            return min(pieces)


def python_steps_per_s(canary_s: float) -> float:
    return _CANARY_STEPS / canary_s if canary_s > 0 else 0.0


def canary_drift(before_s: float, after_s: float) -> float:
    """Return by what share the CPU became slower; negative if faster."""
    return after_s / before_s - 1 if before_s > 0 else 0.0


def _affinity_now() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))  # macOS has no affinity


# Of this process before torch: if the environment asks OpenMP to bind threads, importing torch binds the main thread
# to one CPU (pytorch/pytorch issues 49971 and 91989), and the kernel then reports that one.
_AT_START = _affinity_now()
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def affinity() -> frozenset[int]:
    return _AT_START if "torch" in sys.modules and binding() else _affinity_now()


def binding(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: environ[name] for name in BINDING if environ.get(name)}


def numa_nodes(root: Path = ROOT, cpus: Collection[int] | None = None) -> list[int]:
    folder, own = root / "sys/devices/system", sorted(affinity() if cpus is None else cpus)
    nodes = {link.name.removeprefix("node") for cpu in own for link in folder.glob(f"cpu/cpu{cpu}/node*")}
    return sorted(int(node) for node in nodes if node.isdigit())


def cores(root: Path = ROOT, cpus: Collection[int] | None = None) -> int:
    """Return the physical cores in affinity and quota: 2 for a quota of 2.5, else one is throttled."""
    physical = physical_cores(affinity() if cpus is None else cpus, root)
    quota = quota_cpus(root)
    return max(1, physical if quota is None else min(physical, int(quota)))


def physical_cores(cpus: Collection[int], root: Path = ROOT) -> int:
    """Count the physical cores of `cpus`, or these if cores are unreadable."""
    folder = root / "sys/devices/system/cpu"
    siblings = [read_text(folder / f"cpu{cpu}/topology/thread_siblings_list")[0].strip() for cpu in cpus]
    if all(siblings):
        return len(set(siblings))
    listed = {block.get("processor"): block for block in cpuinfo(root)}
    blocks = [listed.get(str(cpu), {}) for cpu in cpus]
    if all("core id" in block for block in blocks):
        return len({(block.get("physical id"), block["core id"]) for block in blocks})
    return len(cpus)


def quota_cpus(root: Path = ROOT) -> float | None:
    limits = []
    for folder in cgroup_folders("cpu", root):
        quota, _, period = read_text(folder / "cpu.max")[0].partition(" ")
        if not quota:
            quota, period = (read_text(folder / f"cpu.cfs_{name}_us")[0] for name in ("quota", "period"))
        with suppress(ValueError, ZeroDivisionError):  # "max" and -1 mean no limit
            limits.append(whole(quota) / whole(period))
    return min(limits, default=None)


def cgroup_folders(controller: str, root: Path = ROOT) -> tuple[Path, ...]:
    """Return the folders of our cgroup and its ancestors, in v2 and v1.

    A container without a cgroup namespace sees its host's path but its own group at the mount.
    """
    folders: list[Path] = []
    for line in read_text(root / "proc/self/cgroup")[0].splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        mounts = ("",) if not names else (names, controller) if controller in names.split(",") else ()
        bases = [base for base in (root / "sys/fs/cgroup" / mount for mount in mounts) if os.path.isdir(base)]
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        for base in bases[:1]:
            steps = [base.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
            folders += [step for step in steps if os.path.isdir(step)]
    return tuple(folders)


def cpuinfo(root: Path = ROOT) -> list[dict[str, str]]:
    """Split /proc/cpuinfo into blocks, one per logical CPU; empty without it."""
    blocks: list[dict[str, str]] = [{}]
    for line in read_text(root / "proc/cpuinfo")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            blocks[-1][name.strip()] = value.strip()
        elif blocks[-1]:
            blocks.append({})
    return [block for block in blocks if "processor" in block]


def read_text(path: Path) -> tuple[str, str]:
    """Return a kernel file's text, or "" and the reason. Never raises."""
    try:
        return path.read_text(errors="replace"), ""
    except (OSError, ValueError) as error:
        return "", f"{path}: {getattr(error, 'strerror', None) or error}"


def whole(text: str) -> int:
    """Read a kernel's counter, or raise ValueError unless it is from 0 to 2**64."""
    value = int(text)
    if not 0 <= value < 2**64:
        raise ValueError(f"{text.strip()[:20]} is not a counter")
    return value


def keyed(text: str) -> dict[str, int]:
    """Read lines of `name value`; other lines are skipped."""
    numbers = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        with suppress(ValueError):
            numbers[name] = whole(value)
    return numbers


def _machine_time(root: Path) -> tuple[dict[str, float], str]:
    path = root / "proc/stat"
    text, why = read_text(path)
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    try:
        ticks = [whole(field) / os.sysconf("SC_CLK_TCK") for field in lines[0][1:9]]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks
    except (ValueError, IndexError):
        return {}, why or f"{path} has no line of the form 'cpu user nice system … steal'"
    busy_s = user + nice + system + irq + softirq  # guests' time is in user's already
    machine_s = busy_s + idle + iowait + steal
    cpus = float(max(len(lines) - 1, 1))
    return {"busy_s": busy_s, "steal_s": steal, "machine_s": machine_s, "logical_cpus": cpus}, ""


def _pressure(root: Path) -> tuple[dict[str, float], str]:
    path = root / "proc/pressure/cpu"
    text, why = read_text(path)
    for line in text.splitlines():
        if line.startswith("some"):
            with suppress(ValueError):
                return {"pressure_s": whole(line.rpartition("total=")[2]) / 1e6}, ""
    return {}, why or f"{path} has no line of the form 'some … total=microseconds'"


def _throttling(root: Path) -> tuple[dict[str, float], str]:
    stats = [keyed(read_text(folder / "cpu.stat")[0]) for folder in cgroup_folders("cpu", root)]
    stats = [stat for stat in stats if "nr_throttled" in stat]
    if not stats:
        return {}, f"no cpu.stat of this process's cgroups under {root / 'sys/fs/cgroup'} counts throttling"
    seconds = sum(stat.get("throttled_usec", 0) / 1e6 + stat.get("throttled_time", 0) / 1e9 for stat in stats)
    count = sum(stat["nr_throttled"] for stat in stats)
    return {"cgroup_throttled_s": seconds, "cgroup_throttled_count": float(count)}, ""
