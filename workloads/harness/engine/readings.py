"""All probes around a measurement: the machine, its activity meanwhile, and reasons for missing readings."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from workloads.harness.engine.monitor import Monitor
from workloads.harness.engine.phases import Phases
from workloads.harness.probes import cpu, energy, gpu, machine, memory
from workloads.harness.records.record import Memory


class Readings:
    """A collection of probes by stage: every reading is in `probes` or, with the reason, in `missing`."""

    def __init__(self, device: str, threads: int, origin_s: float) -> None:
        self.device, self.threads = device, threads
        self.probes: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        self.energy_j: float | None = None
        self.own_cpu_s = cpu.own_cpu_s  # of several ranks: the CPU seconds of all of them
        self.gpu = gpu.open_gpu(_uuid()) if device == "cuda" else gpu.NoGpu("measured on the CPU")
        self.monitor = Monitor(gpu=self.gpu if device == "cuda" else None, origin_s=origin_s)
        gpus = [self.gpu.describe()] if device == "cuda" else []
        self.environment = machine.fingerprint(gpus=gpus)
        if device == "cuda":  # others' load shows only before our own context exists
            self._take(gpu.foreign_load(self.gpu))

    def add(self, **values: float) -> None:
        """Take over readings that the engine made itself."""
        self.probes.update(values)

    def monitored(self) -> AbstractContextManager[Any]:
        """Sample in the background as long as the context lasts."""
        return self.monitor

    @contextmanager
    def window(self, phases: Phases) -> Iterator[None]:
        """Read the counters before and after the samples, and when that was, by the monitor's own time."""
        self.monitor.poke()
        with phases("probe"):
            canary_s = cpu.canary_s()
            gpu_before, energy_before = self.gpu.counters(), energy.counters(self.gpu)
            cpu_before = cpu.counters(own_s=self.own_cpu_s)
        self.probes["window_start_s"] = time.perf_counter() - phases.origin_s
        yield
        self.probes["window_end_s"] = time.perf_counter() - phases.origin_s
        self.monitor.poke()
        with phases("probe"):
            self._take(cpu.delta(cpu_before, cpu.counters(own_s=self.own_cpu_s)))
            gpu_after, joules = self.gpu.counters(), energy.delta(energy_before, energy.counters(self.gpu))
            self.probes["canary_drift"] = cpu.canary_drift(canary_s, cpu.canary_s())
        self._take(joules)
        self.energy_j = joules[0].get("gpu_energy_j" if self.device == "cuda" else "cpu_energy_j")
        if self.device == "cuda":
            sampled = self.monitor.columns().get("gpu_throttled", ())
            self._take(gpu.throttling(gpu_before, gpu_after, sampled))

    def peak_flops(self, precision: str) -> float | None:
        """Return the FLOP/s that the CPU can't exceed; None for GPUs, whose peaks are in the catalogue."""
        if self.device != "cpu":
            return None
        return machine.peak_flops_bound(self.environment, self.threads, precision)

    def parts(self) -> dict[str, Any]:
        """Return the record's fields that come from probes."""
        self.probes["monitor_share"] = self.monitor.cost_share
        return {
            "memory": self.memory(),
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
        """Return this process's peaks of memory so far."""
        peak = memory.peak_rss_bytes()
        if self.device != "cuda":
            return Memory(peak_rss_bytes=peak)
        import torch

        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return Memory(peak_rss_bytes=peak)
        return Memory(
            peak_rss_bytes=peak,
            device_allocated_bytes=torch.cuda.max_memory_allocated(),
            device_reserved_bytes=torch.cuda.max_memory_reserved(),
            alloc_retries=torch.cuda.memory_stats().get("num_alloc_retries", 0),
        )


def _uuid() -> str | None:
    """Return the UUID of torch's CUDA device 0; None if it sees none."""
    import torch

    return str(torch.cuda.get_device_properties(0).uuid) if torch.cuda.is_available() else None
