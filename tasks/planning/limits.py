"""Limits of hardware, by its files or this machine."""

from dataclasses import replace

from tasks.planning.hardware import Hardware, load_gpus
from tasks.plausibility.physics import MARGIN
from workloads.harness.repeat.limits import Limits
from workloads.harness.repeat.local_limits import limits_here

LOCAL_POOL = "local"  # its worker runs on the machine that plans
RENTAL_POOL = "rental"  # its worker rents and returns boxes, and only it has the keys for that
GB = 1e9
GPU_GB = 2.0**30  # makers give a GPU's memory in powers of two and call them GB


def limits_of(machine: Hardware, threads: int | None) -> Limits:
    """Return limits known before a lane starts; `threads` are each process's."""
    here = Limits(machine.name)
    if machine.pool == LOCAL_POOL:
        here = limits_here(machine.name, machine.device, threads)
    if machine.device == "cpu":
        return replace(here, memory_bytes=machine.memory_gb * GB) if machine.memory_gb else here
    here = replace(here, processes=machine.gpus or here.processes)
    if machine.gpu is None:
        return here
    peaks = load_gpus()[machine.gpu]
    memory_gb = machine.gpu_memory_gb or peaks.memory_gb
    rates = {precision: tflops * 1e12 * MARGIN for precision, tflops in peaks.tflops.items()}
    return replace(here, memory_bytes=memory_gb * GPU_GB, peak_flops=rates)


def threads_on(machine: Hardware, case_threads: int | None) -> int | None:
    """Return the fewer of both."""
    return min((count for count in (machine.threads, case_threads) if count), default=None)
