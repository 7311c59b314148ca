"""Check a container before its first measurement: driver, GPUs, shared memory.

A finding is a pass and one sentence that says what to do without one.
"""

import importlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads.harness.probes.cpu import ROOT
from workloads.harness.probes.device_here import driver_answer
from workloads.harness.probes.gpu_place import cards_on_bus
from workloads.harness.probes.sockets import sockets_fault
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.training.loading import SHARED_MEMORY

Finding = tuple[bool, str]
# Docker's default is 64 MiB. A batch of 256 images of 224 x 224 in fp32 has 147 MiB, and each loader process
# keeps two ready.
LEAST_SHARED_BYTES = 512 * 2**20
# The oldest driver for a major version of CUDA: docs.nvidia.com/deploy/cuda-compatibility, minor versions.
OLDEST_DRIVER = {12: "525.60.13", 13: "580.65.06"}
NVML_S = 30.0  # a sound driver answers within one
NO_GPU = (
    "no GPU is visible to this process, but this hardware entry needs one: request GPUs in the job, "
    "and start the container with NVIDIA's runtime"
)


def shared_memory(folder: Path = SHARED_MEMORY) -> Finding:
    try:
        about = os.statvfs(folder)
    except OSError as error:
        return False, f"shared memory ({folder}), which data loaders need, can't be checked: {error.strerror}"
    size = about.f_frsize * about.f_blocks
    text = f"shared memory ({folder}) has {size / 2**20:.0f} MiB"
    if size >= LEAST_SHARED_BYTES:
        return True, text
    needed_mib = LEAST_SHARED_BYTES // 2**20
    return (
        False,
        f"{text}, data loaders need {needed_mib}: set docker run --shm-size, or shared_memory_mib in the pool",
    )


def sockets() -> Finding:
    fault = sockets_fault()
    return not fault, fault or "the temporary folder is fit for the sockets of data loaders"


def too_few(visible: int, expected: int, on_bus: list[str] | None) -> str:
    text = f"{visible} of {expected} GPUs are visible"
    if on_bus is None or len(on_bus) <= visible:
        return f"{text}, and the PCI bus has no more: request {expected} in the job, or return the machine"
    return (
        f"{text}, but the PCI bus has {len(on_bus)}: request {expected} in the job. If the job has all of them, the "
        "driver has lost a card: restart the machine or return it"
    )


def gpus(expected: int, nvml: Any = None, torch: Any = None, root: Path = ROOT) -> list[Finding]:
    torch = torch or importlib.import_module("torch")
    cuda = torch.version.cuda
    if cuda is None:
        return [(False, f"torch {torch.__version__} is built without CUDA: use an image with CUDA")]
    try:
        if nvml is None:
            _names_from_child()  # a driver that hangs or kills does so there
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        driver, handles = str(nvml.nvmlSystemGetDriverVersion()), _handles(nvml)
    except WorkloadsError as error:
        return [(False, str(error))]
    except Exception as error:
        why = "" if isinstance(error, ImportError) else f" (NVML: {error})"
        return [(False, f"{NO_GPU}{why}")]
    if not handles:
        return [(False, NO_GPU)]
    oldest = OLDEST_DRIVER.get(int(cuda.split(".")[0]))
    if oldest and _numbers(driver) < _numbers(oldest):
        older = [major for major, least in OLDEST_DRIVER.items() if _numbers(driver) >= _numbers(least)]
        instead = f", or use an image with CUDA {max(older)}" if older else ""
        text = f"driver {driver} is too old for CUDA {cuda}: update it to {oldest} or newer{instead}"
        return [(False, text)]
    if len(handles) < expected:
        return [(False, too_few(len(handles), expected, cards_on_bus(root)))]
    missing = _without_kernels(nvml, handles, torch)
    return missing or [(True, f"driver {driver} supports CUDA {cuda}; visible GPUs: {len(handles)}")]


def gpu_names() -> list[str]:
    """Return the driver's names of the visible GPUs; empty without an answer."""
    with suppress(WorkloadsError):  # `gpus` gives the reason
        return _names_from_child()
    return []


def _names_from_child() -> list[str]:
    program = f"import json; from {__name__} import names_here; print(json.dumps(names_here()))"
    names: list[str] = json.loads(driver_answer(program, NVML_S) or "[]")
    return names


def names_here(nvml: Any = None) -> list[str]:
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        try:
            return [str(nvml.nvmlDeviceGetName(handle)) for handle in _handles(nvml)]
        finally:
            nvml.nvmlShutdown()
    except Exception:  # any error of NVML: `gpus` reports it
        return []


def _handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def _without_kernels(nvml: Any, handles: list[Any], torch: Any) -> list[Finding]:
    has = torch.cuda.get_arch_list()
    kinds = {}
    for handle in handles:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        if has and not _runs(has, major, minor):
            kinds[str(nvml.nvmlDeviceGetName(handle))] = f"sm_{major}{minor}"
    return [
        (
            False,
            f"torch {torch.__version__} has no kernels for {name} ({kind}), only for {', '.join(has)}: "
            "use an image with another CUDA version",
        )
        for name, kind in kinds.items()
    ]


def _runs(architectures: list[str], major: int, minor: int) -> bool:
    """Return whether a GPU runs these kernels: its major version, up to its minor one, or older PTX."""
    return any(
        (int(of_major) == major or kind == "compute") and (int(of_major), int(of_minor)) <= (major, minor)
        for kind, of_major, of_minor in re.findall(r"(sm|compute)_(\d+)(\d)", " ".join(architectures))
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
