"""Check that a machine is fit to measure on; each sentence names the remedy."""

import importlib.util
import os
import time

from workloads.harness.checks import preflight
from workloads.harness.engine.device import UnsupportedError, check_torch, why_no_cuda
from workloads.harness.probes import cpu, energy, gpu, launches, machine, memory
from workloads.harness.probes.asked_gpu import AskedGpu
from workloads.harness.probes.device_here import FABRIC, is_not_ready
from workloads.harness.probes.gpu_place import cards_on_bus
from workloads.harness.records.grade import CANARY_DRIFT, FOREIGN_CORES, STEAL_SHARE
from workloads.harness.repeat.exclusive import whole_box

LOOK_S = 1.0
NEEDS_BYTES = 2**30


def findings() -> list[tuple[bool, str]]:
    """Check this machine, in about two seconds; return passes and sentences."""
    with whole_box():
        free = memory.available_bytes()
        room = f"{free / 2**30:.1f} GiB of memory is free" if free is not None else "free memory is unknown"
        missing = energy.counters().missing.get("cpu_energy_j")
        joules = f"CPU energy is unknown: {missing}" if missing else "CPU energy is measured by RAPL"
        return [
            *(_torch(), _threads(), *_quiet(), (free is None or free >= NEEDS_BYTES, room)),
            *(
                preflight.shared_memory(),
                preflight.sockets(),
                _gpu(),
                _launches(),
                (True, joules),
            ),  # launches open the GPU
        ]


def before_measuring(device: str, gpus: int = 1) -> list[tuple[bool, str]]:
    torch = _torch()
    on_gpus = preflight.gpus(gpus) if device == "cuda" and torch[0] else []
    return [torch, *on_gpus, preflight.shared_memory()]


def _torch() -> tuple[bool, str]:
    if importlib.util.find_spec("torch") is None:
        return False, "torch is not installed: pip install torch numpy psutil"
    facts = machine.fingerprint()
    try:
        check_torch(str(facts["torch"]))
    except UnsupportedError as error:
        return False, str(error)
    return True, f"torch {facts['torch']}, CUDA {facts['cuda'] or 'none'}, Python {facts['python']}"


def _threads() -> tuple[bool, str]:
    facts, threads = machine.fingerprint(), cpu.cores()
    text = f"{threads} threads on {facts['cpu_model']}, {facts['logical_cpus']} logical CPUs"
    if bound := cpu.binding():
        names = " ".join(f"{name}={value}" for name, value in bound.items())
        return False, f"{text}; {names} binds data loaders to the CPU of the main thread: measure without it"
    forced = os.environ.get("OMP_NUM_THREADS")
    if forced and forced != str(threads):
        return True, f"{text}; OMP_NUM_THREADS={forced} is overridden"
    return True, text


def _quiet() -> list[tuple[bool, str]]:
    before, canary_s = cpu.counters(), cpu.canary_s()
    time.sleep(LOOK_S)
    values, missing = cpu.delta(before, cpu.counters())
    drift = abs(cpu.canary_drift(canary_s, cpu.canary_s()))
    change = f"the CPU's speed changed by {drift:.1%} within {LOOK_S:g} s (limit {CANARY_DRIFT:.0%})"
    speed = (
        f"{cpu.python_steps_per_s(canary_s) / 1e6:.3g} million steps of a Python loop per second; {change}"
    )
    foreign = "other processes use {:.2f} cores (limit {:g}): stop them"
    stolen = "the hypervisor takes {:.1%} of the CPU time (limit {:.0%}): take a dedicated host"
    results = [(drift <= CANARY_DRIFT, speed)]
    for name, limit, text in (
        ("foreign_cores", FOREIGN_CORES, foreign),
        ("steal_share", STEAL_SHARE, stolen),
    ):
        if name in values:
            well = values[name] <= limit
            results.append((well, text.format(values[name], limit).partition(":" if well else "\n")[0]))
        else:
            results.append((True, f"{name} is unknown: {missing[name]}"))
    return results


def _launches() -> tuple[bool, str]:
    if importlib.util.find_spec("torch") is None:
        return True, "launches are not timed: torch is not installed"
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    values, missing = launches.reading(device)
    if missing:
        return False, f"torch cannot compute on {device}: {missing['launches_per_s']}"
    where = "the GPU" if device == "cuda" else "the CPU"
    return (
        True,
        f"{values['launches_per_s'] / 1e3:.3g} thousand tiny operations of torch per second on {where}",
    )


def _gpu() -> tuple[bool, str]:
    if importlib.util.find_spec("torch") is None:
        return True, "GPU not checked: torch is not installed"
    device = AskedGpu()
    cards = device.health()[0].get("gpu_cards")
    device.close()
    if device.is_lost:
        return False, f"{device.reason}: repair the driver or return the machine"
    on_bus = cards_on_bus()
    if on_bus and cards is not None and cards < len(on_bus):
        seen = f"the driver shows {cards:.0f} of the {len(on_bus)} NVIDIA GPUs on the PCI bus"
        if machine.container(cpu.ROOT, os.environ):  # the bus shows it all cards of its host
            return True, f"{seen}: this container was given fewer, or the others are lost"
        return False, f"{seen}: restart the machine or return it"
    import torch

    if not torch.cuda.is_available():
        why = why_no_cuda()
        is_broken = is_not_ready(why) or bool(cards)
        return not is_broken, (
            f"torch can't use the {cards or 0:.0f} GPUs: {FABRIC if is_not_ready(why) else why}"
            if is_broken
            else "torch finds no CUDA device: only the CPU is measured"
        )
    properties = torch.cuda.get_device_properties(0)
    device = AskedGpu(str(properties.uuid))
    values, _ = gpu.foreign_load(device)
    device.close()
    busy = values.get("gpu_foreign_share", 0.0)
    return busy == 0, f"other processes use {busy:.0%} of {properties.name}"
