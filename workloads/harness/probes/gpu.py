"""An NVIDIA GPU through NVML, by UUID because indices differ between programs.

`open_gpu` returns an `NvmlGpu`, or a `NoGpu` that answers every question with one reason. Nothing here raises.
"""

import importlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from workloads.harness.probes.gpu_health import HEALTH, XID, health_questions
from workloads.harness.probes.gpu_place import link_states, numa_node, other_gpus
from workloads.harness.probes.gpu_slice import mig_profiles, mig_slice, whole_card

Readings = tuple[dict[str, float], dict[str, str]]

READINGS = (
    *("gpu_utilisation_share", "gpu_memory_used_bytes", "gpu_power_w", "gpu_sm_clock_mhz"),
    *("gpu_temperature_c", "gpu_throttled", "gpu_event_reasons"),
)
TOTALS = ("power_throttled_s", "thermal_throttled_s", "gpu_energy_j")
FACTS = (
    *("uuid", "name", "driver", "vbios", "memory_total_bytes", "power_limit_w", "sm_clock_max_mhz"),
    *("pcie_gen", "pcie_gen_max", "pcie_width", "ecc", "mig", "compute_mode", "numa_node"),
    *("nvlinks", "other_gpus", "mig_slice", "mig_devices"),
)
FOREIGN = ("gpu_foreign_processes", "gpu_foreign_share", "gpu_foreign_memory_bytes")
_UTILISATION, _MEMORY = "gpu_utilisation_share", "gpu_memory_used_bytes"
_FOREIGN = {"gpu_foreign_share": _UTILISATION, "gpu_foreign_memory_bytes": _MEMORY}
# nvml.h: nvmlClocksEventReasons…; the power brake is pulled by the machine's own power supply
SLOWED_BY = {
    "gpu_slowed_by_power_cap_share": 0x4,
    "gpu_slowed_by_hardware_share": 0x8,
    "gpu_slowed_by_heat_share": 0x20,
    "gpu_slowed_by_hardware_heat_share": 0x40,
    "gpu_slowed_by_power_brake_share": 0x80,
}
_SLOWED = sum(SLOWED_BY.values())
_POWER, _THERMAL = 0, 1  # nvml.h: NVML_PERF_POLICY_…
_SM_CLOCK, _CORE_SENSOR = 1, 0  # nvml.h: NVML_CLOCK_SM, NVML_TEMPERATURE_GPU
_FEWEST_CLOCKS = 3  # samples of the clock in a half of the window
_IDLE_READINGS, _IDLE_BYTES = 3, 2**30  # any process that computes takes some hundred MB
_TRUSTED_GROWTH = 1.1  # a counter of seconds that outruns the clock by more is broken


@dataclass(frozen=True, slots=True)
class GpuCounters:
    """Cumulative counters: seconds throttled for power and for heat, and joules; `at_s` is the host's clock."""

    at_s: float
    totals: dict[str, float]
    missing: dict[str, str]


class Gpu:
    """One GPU as a table of questions by name.

    Attributes:
        own_pid: the measuring process; others on the GPU are foreign.
        cpu_s: CPU seconds that another process has spent on the answers.
        is_lost: the driver hung or killed the process that asked it.
    """

    cpu_s = 0.0
    is_lost = False

    def __init__(
        self, questions: Mapping[str, Callable[[], Any]], reason: str = "this probe does not read it"
    ) -> None:
        self.questions = questions
        self.reason = reason
        self.own_pid = os.getpid()

    def read(self) -> Readings:
        """Return readings by the names in `READINGS`; `gpu_throttled` is 1 while power or heat limit, else 0."""
        return self._numbers(READINGS)

    def counters(self) -> GpuCounters:
        at_s = time.perf_counter()
        return GpuCounters(at_s, *self._numbers(TOTALS))

    def foreign_processes(self) -> Readings:
        """Return `gpu_foreign_processes`, the number of other processes that compute on the GPU.

        Our own can be listed by its number on the host: ask before our own context exists.
        """
        return self._numbers(("gpu_foreign_processes",))

    def own_memory(self) -> Readings:
        return self._numbers(("gpu_own_memory_bytes",))

    def health(self) -> Readings:
        values, missing = self._numbers(HEALTH)
        codes = self._ask(("xids",))[0].get("xids", {}) if values.get("gpu_xid_errors") else {}
        return values | {f"{XID}{code}": float(count) for code, count in codes.items()}, missing

    def describe(self) -> dict[str, Any]:
        facts, missing = self._ask(FACTS)
        return dict.fromkeys(FACTS) | facts | {"missing": missing}

    def close(self) -> None:
        if "close" in self.questions:
            self._ask(("close",))

    def _ask(self, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name in names:
            if name not in self.questions:
                missing[name] = self.reason
                continue
            try:
                values[name] = self.questions[name]()
            except Exception as error:
                missing[name] = f"NVML: {error or type(error).__name__}"
        return values, missing

    def _numbers(self, names: Iterable[str]) -> Readings:
        values, missing = self._ask(names)
        for name, value in list(values.items()):
            if isinstance(value, int | float) and math.isfinite(value):
                values[name] = float(value)
            else:
                missing[name] = f"the GPU returned {values.pop(name)!r}"
        return values, missing


class NoGpu(Gpu):
    """No GPU: everything is missing, for one reason."""

    def __init__(self, reason: str) -> None:
        super().__init__({}, reason)


class NvmlGpu(Gpu):
    """A GPU or a MIG slice, asked through NVML (`nvml`: pynvml or a stand-in)."""

    def __init__(self, nvml: Any, handle: Any, uuid: str) -> None:
        gpu, card = handle, whole_card(nvml, handle)
        questions: dict[str, Callable[[], Any]] = {
            "gpu_utilisation_share": lambda: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
            "gpu_memory_used_bytes": lambda: _memory(nvml, gpu).used,
            "gpu_power_w": lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            "gpu_sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(gpu, _SM_CLOCK),
            "gpu_temperature_c": lambda: nvml.nvmlDeviceGetTemperature(gpu, _CORE_SENSOR),
            "gpu_throttled": lambda: bool(_event_reasons(nvml, gpu) & _SLOWED),
            "gpu_event_reasons": lambda: _event_reasons(nvml, gpu),
            "power_throttled_s": lambda: nvml.nvmlDeviceGetViolationStatus(gpu, _POWER).violationTime / 1e9,
            "thermal_throttled_s": lambda: (
                nvml.nvmlDeviceGetViolationStatus(gpu, _THERMAL).violationTime / 1e9
            ),
            "gpu_energy_j": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3,
            "gpu_foreign_processes": lambda: sum(
                process.pid != self.own_pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
            ),
            "gpu_own_memory_bytes": lambda: _process_of(self.own_pid, nvml, gpu).usedGpuMemory,
            "uuid": lambda: uuid,
            "name": lambda: str(nvml.nvmlDeviceGetName(gpu)),
            "driver": lambda: str(nvml.nvmlSystemGetDriverVersion()),
            "vbios": lambda: str(nvml.nvmlDeviceGetVbiosVersion(gpu)),
            "memory_total_bytes": lambda: int(_memory(nvml, gpu).total),
            "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1e3,
            "sm_clock_max_mhz": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(gpu, _SM_CLOCK)),
            "pcie_gen": lambda: int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
            "pcie_gen_max": lambda: int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
            "pcie_width": lambda: int(nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
            "ecc": lambda: bool(nvml.nvmlDeviceGetEccMode(gpu)[0]),
            "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(card)[0]),
            "mig_slice": lambda: mig_slice(nvml, gpu),
            "mig_devices": lambda: mig_profiles(nvml, gpu),
            "compute_mode": lambda: int(nvml.nvmlDeviceGetComputeMode(gpu)),
            "numa_node": lambda: numa_node(nvml.nvmlDeviceGetPciInfo(gpu).busId),
            "nvlinks": lambda: sum(link_states(nvml, gpu)),
            "other_gpus": lambda: other_gpus(nvml, gpu),
            "close": lambda: nvml.nvmlShutdown(),
        }
        super().__init__(questions | health_questions(nvml, card))
        self.uuid = uuid


def open_gpu(uuid: str | None, nvml: Any = None) -> Gpu:
    """Open the GPU of this UUID, with or without prefix; else return a `NoGpu`."""
    if not uuid:
        return NoGpu("no GPU was requested")
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except ImportError:
        return NoGpu("nvidia-ml-py is not installed: run `pip install nvidia-ml-py`")
    except Exception as error:
        return NoGpu(f"NVML doesn't start: {error}")
    why = ""
    for name in (uuid,) if uuid.startswith(("GPU-", "MIG-")) else (f"GPU-{uuid}", f"MIG-{uuid}"):
        try:
            return NvmlGpu(nvml, nvml.nvmlDeviceGetHandleByUUID(name), name)
        except Exception as error:
            why = why or f"NVML knows no GPU {name}: {error}"
    with suppress(Exception):
        nvml.nvmlShutdown()
    return NoGpu(why)


def throttling(before: GpuCounters, after: GpuCounters, sampled: Sequence[float] = ()) -> Readings:
    """Return `power_throttled_share`, `thermal_throttled_share` and their sum, `throttled_share`.

    Without such counters, `throttled_share` is that of the `sampled` readings, and `missing` says so.
    """
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    wall_s = after.at_s - before.at_s
    for name in ("power_throttled", "thermal_throttled"):
        why = (before.missing | after.missing).get(f"{name}_s")
        grown_s = after.totals.get(f"{name}_s", 0.0) - before.totals.get(f"{name}_s", 0.0)
        if why or wall_s <= 0:
            missing[f"{name}_share"] = why or "the window is empty"
        elif not 0 <= grown_s <= _TRUSTED_GROWTH * wall_s:
            missing[f"{name}_share"] = (
                f"its counter grew by {grown_s:.3g} s in {wall_s:.3g} s, which is impossible"
            )
        else:
            values[f"{name}_share"] = min(grown_s / wall_s, 1.0)
    if values:
        values["throttled_share"] = min(sum(values.values()), 1.0)
    elif sampled:
        values["throttled_share"] = math.fsum(sampled) / len(sampled)
        note = f"throttled_share is from {len(sampled)} samples of the clock's event reasons instead"
        missing["throttled_counters"] = f"{missing['power_throttled_share']}; {note}"
    else:
        missing["throttled_share"] = missing["power_throttled_share"]
    return values, missing


def slowed_by(reasons: Sequence[float]) -> Readings:
    if not reasons:
        return {}, dict.fromkeys(SLOWED_BY, "the clock's event reasons were not sampled within the window")
    return {
        name: sum(bool(int(sample) & bit) for sample in reasons) / len(reasons)
        for name, bit in SLOWED_BY.items()
    }, {}


def clock_drift(clocks_mhz: Sequence[float]) -> Readings:
    """Return `sm_clock_drift`: the rise of the clock in its second half, as a share."""
    half = len(clocks_mhz) // 2
    if half < _FEWEST_CLOCKS:
        return {}, {"sm_clock_drift": f"{len(clocks_mhz)} samples of the clock are too few for two halves"}
    first, second = math.fsum(clocks_mhz[:half]), math.fsum(clocks_mhz[-half:])
    if first <= 0:
        return {}, {"sm_clock_drift": "the GPU reported a clock of 0"}
    return {"sm_clock_drift": second / first - 1}, {}


def foreign_load(
    gpu: Gpu, window_s: float = 1.0, samples: int = 10, sleep: Callable[[float], None] = time.sleep
) -> Readings:
    """Return others' use of the GPU; ask before our own context exists.

    An idle card takes a few readings; any other a window of `window_s` seconds. If it seems busy then, a
    second window decides, because a reading is of up to a second of the past (nvmlUtilization_t), in which
    our previous process computed.

    Readings: `gpu_foreign_processes`, `gpu_foreign_share` (mean utilisation) and `gpu_foreign_memory_bytes`
    (the most in use, of which the driver alone can hold some tens of MB).
    """
    why, rows = gpu.read()[1], list[Mapping[str, float]]()
    if not all(source in why for source in _FOREIGN.values()):
        rows = _window(gpu, samples, lambda: sleep(window_s / samples))
        if any(row.get(_UTILISATION) for row in rows):
            rows = _window(gpu, samples, lambda: sleep(window_s / samples))
    values, missing = gpu.foreign_processes()
    for name, source in _FOREIGN.items():
        column = [row[source] for row in rows if source in row]
        if not column:
            missing[name] = why.get(source, "the GPU stopped answering")
        else:
            values[name] = max(column) if name.endswith("_bytes") else math.fsum(column) / len(column)
    return values, missing


def _window(gpu: Gpu, samples: int, pause: Callable[[], None]) -> list[Mapping[str, float]]:
    rows: list[Mapping[str, float]] = []
    while len(rows) < samples:
        pause()
        rows.append(gpu.read()[0])
        last = rows[-_IDLE_READINGS:]
        if len(last) == _IDLE_READINGS and _is_idle(gpu, last):
            return last
    return rows


def _is_idle(gpu: Gpu, rows: Sequence[Mapping[str, float]]) -> bool:
    is_at_rest = all(
        row.get(_UTILISATION, math.inf) == 0 and row.get(_MEMORY, math.inf) <= _IDLE_BYTES for row in rows
    )
    return is_at_rest and gpu.foreign_processes()[0].get("gpu_foreign_processes") == 0


def _process_of(pid: int, nvml: Any, gpu: Any) -> Any:
    """Return NVML's entry for a process, or its only entry, or raise LookupError.

    A container numbers its processes anew, and NVML can list the host's numbers.
    """
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    own = [process for process in processes if process.pid == pid]
    if not own and len(processes) != 1:
        raise LookupError(f"it lists {len(processes)} processes, none with the number {pid}")
    return (own or processes)[0]


def _memory(nvml: Any, gpu: Any) -> Any:
    """Return memory without the driver's reserve (version 2), or with it from older drivers."""
    with suppress(Exception):
        return nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
    return nvml.nvmlDeviceGetMemoryInfo(gpu)


def _event_reasons(nvml: Any, gpu: Any) -> int:
    """Return the reasons for a reduced clock, as bits; older drivers use another name."""
    with suppress(Exception):
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))
