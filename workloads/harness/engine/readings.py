"""All probes around a measurement, and reasons for missing readings."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import compress
from typing import Any

from workloads.harness.engine.monitor import Monitor
from workloads.harness.engine.phases import Phases
from workloads.harness.probes import cpu, energy, gpu, launches, machine, memory, roof, stack
from workloads.harness.probes.asked_gpu import AskedGpu
from workloads.harness.probes.gpu_bound import gpu_flops_bound, shape_of
from workloads.harness.records.record import AT_LIMIT_SHARE, Memory

GPU_INTERVAL_S = 0.1


class Readings:
    """Probes by stage: every reading is in `probes`, or its reason in `missing`."""

    def __init__(self, device: str, threads: int, origin_s: float) -> None:
        self.device, self.threads = device, threads
        self.probes: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        self.energy_j: float | None = None
        self.own_cpu_s = cpu.own_cpu_s  # of several ranks: the CPU seconds of all of them
        # by NVML: torch would open CUDA for it, which belongs to the phase `context`
        is_gpu = device == "cuda"
        self.gpu: gpu.Gpu = AskedGpu() if is_gpu else gpu.NoGpu("measured on the CPU")
        self._process_peaks: tuple[int, int] = (0, 0)  # of the device before the samples, bytes
        self._step_peaks: tuple[int, int] | None = None
        self._sampled: dict[
            str, tuple[float, ...]
        ] = {}  # of the monitor's columns, in the window of the samples
        self.monitor = Monitor(origin_s=origin_s)
        if is_gpu:  # its clock changes faster than anything of a CPU that is read here
            self.monitor = Monitor(self.gpu, GPU_INTERVAL_S, origin_s)
        gpus = [self.gpu.describe()] if device == "cuda" else []
        self.environment = machine.fingerprint(gpus=gpus)
        if device == "cuda":  # others' load shows only before our own context exists
            self._take(gpu.foreign_load(self.gpu))

    def add(self, **values: float) -> None:
        self.probes.update(values)

    def busy(self, found_s: float | None, why: str, step_s: float = 0.0) -> float | None:
        """Note the busy share of a step, or why it is unknown; return `found_s`."""
        if found_s is None:
            self.missing["device_busy_s"] = why
        else:
            self.add(device_busy_share=min(found_s / step_s, 1.0))
        return found_s

    def monitored(self) -> AbstractContextManager[Any]:
        return self.monitor

    @contextmanager
    def window(self, phases: Phases) -> Iterator[None]:
        self.monitor.poke()
        with phases("probe"):
            canary_s = cpu.canary_s()
            gpu_before, energy_before = self.gpu.counters(), energy.counters(self.gpu)
            cpu_before = cpu.counters(own_s=self.own_cpu_s)
        self.probes["window_start_s"] = time.perf_counter() - phases.origin_s
        with self._own_peaks():
            yield
        self.probes["window_end_s"] = time.perf_counter() - phases.origin_s
        self.monitor.poke()
        with phases("probe"):
            if (
                self.device == "cuda"
            ):  # before the canary, while the links are in the state that the work left
                self._take(self.gpu.health())
            self._take(cpu.delta(cpu_before, cpu.counters(own_s=self.own_cpu_s)))
            gpu_after, joules = self.gpu.counters(), energy.delta(energy_before, energy.counters(self.gpu))
            self.probes["canary_drift"] = cpu.canary_drift(canary_s, cpu.canary_s())
            self.probes["python_steps_per_s"] = cpu.python_steps_per_s(canary_s)
            if "torch" in sys.modules:
                self._take(launches.reading(self.device))
            else:  # of a command, which need not use torch
                self.missing["launches_per_s"] = "the measuring process did not load torch"
        self._take(joules)
        self.energy_j = joules[0].get("gpu_energy_j" if self.device == "cuda" else "cpu_energy_j")
        if self.device == "cuda":
            columns, start_s = self.monitor.columns(), self.probes["window_start_s"]
            inside = [start_s <= at_s <= self.probes["window_end_s"] for at_s in columns.get("t_s", ())]
            sampled = {name: tuple(compress(values, inside)) for name, values in columns.items()}
            self._sampled = sampled
            self._take(gpu.throttling(gpu_before, gpu_after, sampled.get("gpu_throttled", ())))
            self._take(gpu.slowed_by(sampled.get("gpu_event_reasons", ())))
            clocks_mhz = sampled.get("gpu_sm_clock_mhz", ())
            self._take(gpu.clock_drift(clocks_mhz))
            if clocks_mhz:
                self.add(sm_clock_low_mhz=min(clocks_mhz), sm_clock_high_mhz=max(clocks_mhz))

    def of_own_gpu(self) -> dict[str, float]:
        if self.device != "cuda":
            return {}
        own = {
            name: value
            for name, value in self.probes.items()
            if name.startswith("gpu_") or "throttled" in name
        }
        for name in ("gpu_power_w", "gpu_sm_clock_mhz"):
            if values := self._sampled.get(name):
                own[name] = math.fsum(values) / len(values)
        if values := self._sampled.get("gpu_temperature_c"):
            own["gpu_temperature_c"] = max(values)
        return own

    def limit_watch(self) -> Callable[[], bool]:
        """Return a function: has power mostly held the GPU's clock down since now?"""
        before = self.gpu.counters()

        def is_at_limit() -> bool:
            share = gpu.throttling(before, self.gpu.counters())[0].get("power_throttled_share", 0.0)
            return share > AT_LIMIT_SHARE

        return is_at_limit

    def opened(self, index: int = 0) -> None:
        if self.gpu.is_lost:
            return
        opened = _properties(index) if self.device == "cuda" else None
        uuid = str(opened.uuid) if opened else ""
        if uuid not in f"{getattr(self.gpu, 'uuid', '')} {self._card_of_slice()}":
            why = "NVML and CUDA number the GPUs differently: the load of other processes was read on another GPU"
            if index:
                why = f"CUDA device {index} computed, but the load of other processes was read on device 0"
            for name in gpu.FOREIGN:
                if self.probes.pop(name, None) is not None:
                    self.missing[name] = why
            before, self.gpu = self.gpu, AskedGpu(uuid, self.gpu)
            self.monitor.watch(self.gpu)
            self.environment["gpus"] = [self.gpu.describe()]
            before.close()  # only now: the monitor must not ask one that is closed
        if opened:
            self.environment["gpus"] = [_as_slice(card, opened) for card in self.environment["gpus"]]

    def _card_of_slice(self) -> str:
        parts = [card.get("mig_slice") or {} for card in self.environment["gpus"]]
        return next((part.get("of", "") for part in parts), "")

    def computed_on(self, device: str) -> None:
        if device == "cpu" and self.device == "cuda":
            for name in [*self.probes]:
                if name.startswith(("gpu_", "sm_")) or "throttled_share" in name:
                    del self.probes[name]
                    self.missing[name] = "the script computed on the CPU"
        self.device = device
        self.energy_j = self.probes.get("gpu_energy_j" if device == "cuda" else "cpu_energy_j")

    def shared_by(self, gpus: int) -> None:
        """Note that several GPUs did the work: one GPU's energy is not the work's."""
        if self.device == "cuda" and gpus > 1:
            self.energy_j = None
            for name in ("gpu_energy_j", "gpu_energy_error_j"):
                self.probes.pop(name, None)
            self.missing["gpu_energy_j"] = f"{gpus} GPUs computed, but the energy of only one was read"

    def peak_flops(self, precision: str) -> float | None:
        if self.device == "cpu":
            return machine.peak_flops_bound(self.environment, self.threads, precision)
        clock_max_mhz = next((card.get("sm_clock_max_mhz") for card in self.environment["gpus"]), None)
        return gpu_flops_bound(shape_of(), clock_max_mhz, precision)

    def parts(self) -> dict[str, Any]:
        self.probes["monitor_share"] = self.monitor.cost_share
        self.environment |= stack.libraries() | {"settings": stack.settings()}
        if rates := roof.kept_roof(roof.roof_path(self.environment, self.device, self.threads))[roof.RATES]:
            self.environment["roof"] = rates
        peaks = self.memory()  # which asks the GPU
        self.gpu.close()
        return {
            "memory": peaks,
            "energy_j": self.energy_j,
            "probes": dict(self.probes),
            "missing": self.missing | self.monitor.missing,
            "monitor": self.monitor.columns(),
            "environment": self.environment,
            "environment_id": machine.environment_id(self.environment),
        }

    def _take(self, reading: tuple[dict[str, float], dict[str, str]]) -> None:
        self.probes |= reading[0]
        self.missing |= reading[1]

    def memory(self) -> Memory:
        peak = memory.peak_rss_bytes()
        if not self._is_cuda_open():
            return Memory(peak_rss_bytes=peak)
        import torch

        process = tuple(map(max, _device_peaks(), self._process_peaks))
        steps = self._step_peaks or process
        return Memory(
            peak_rss_bytes=peak,
            device_allocated_bytes=steps[0],
            device_reserved_bytes=steps[1],
            alloc_retries=torch.cuda.memory_stats().get("num_alloc_retries", 0),
            process_allocated_bytes=process[0],
            process_reserved_bytes=process[1],
            process_total_bytes=self._total_bytes(process[1]),
        )

    def _total_bytes(self, most_reserved: int) -> int | None:
        """Return this process's peak on the device by the driver, or note why it is unknown.

        The driver reports the present number: segments that the allocator gave back since its peak are added.
        """
        import torch

        values, missing = self.gpu.own_memory()
        self.missing |= missing
        reserved = torch.cuda.memory_reserved()
        total = int(values.get("gpu_own_memory_bytes", 0))
        if values and total < reserved:
            self.missing["gpu_own_memory_bytes"] = (
                f"NVML reports {total} bytes, and torch has reserved {reserved}"
            )
        return total + most_reserved - reserved if values and total >= reserved else None

    @contextmanager
    def _own_peaks(self) -> Iterator[None]:
        if not self._is_cuda_open():
            yield
            return
        import torch

        self._process_peaks = _device_peaks()
        torch.cuda.reset_peak_memory_stats()
        yield
        self._step_peaks = _device_peaks()

    def _is_cuda_open(self) -> bool:
        torch: Any = sys.modules.get("torch")
        return self.device == "cuda" and bool(torch and torch.cuda.is_initialized())


def _device_peaks() -> tuple[int, int]:
    import torch

    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def _properties(index: int) -> Any:
    import torch

    return torch.cuda.get_device_properties(index) if torch.cuda.is_available() else None


def _as_slice(card: dict[str, Any], opened: Any) -> dict[str, Any]:
    _, is_slice, profile = str(getattr(opened, "name", "")).partition(" MIG ")
    if not is_slice or card.get("mig_slice"):
        return card
    size = {"multiprocessors": opened.multi_processor_count, "memory_bytes": opened.total_memory}
    return card | {"mig_slice": {"profile": profile.strip(), **size}}
