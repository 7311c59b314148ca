"""The limits of this machine, read without torch."""

import importlib
import importlib.util
import json
import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from workloads.harness.probes.cpu import ROOT, affinity, cores
from workloads.harness.probes.device_here import driver_answer
from workloads.harness.probes.machine import fingerprint, peak_flops_bound
from workloads.harness.probes.memory import total_bytes
from workloads.harness.records.case import PRECISIONS
from workloads.harness.repeat.limits import Limits

NVML_S = 30.0  # a sound driver answers within one


def limits_here(name: str, device: str, threads: int | None = None) -> Limits:
    if device == "cuda":
        memory_bytes, gpus = asked_gpus()
        return Limits(name, memory_bytes, processes=gpus)
    facts, used = _facts(), threads or cores()
    peaks = {precision: peak_flops_bound(facts, used, precision) for precision in PRECISIONS}
    return Limits(
        name,
        host_bytes(),
        True,
        {precision: peak for precision, peak in peaks.items() if peak},
        max(len(affinity()) // (threads or 1), 1),
    )


@cache
def _facts() -> dict[str, Any]:
    return fingerprint()


def host_bytes(root: Path = ROOT) -> int | None:
    own, _ = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [total_bytes(root), None if own == resource.RLIM_INFINITY else own]
    return min((limit for limit in limits if limit is not None), default=None)


@cache
def asked_gpus(limit_s: float = NVML_S) -> tuple[int | None, int | None]:
    """Return `gpus_here` by a child process, or raise WorkloadsError: a driver can hang or kill it."""
    if importlib.util.find_spec("pynvml") is None:
        return None, None
    program = f"import json; from {__name__} import gpus_here; print(json.dumps(gpus_here()))"
    memory_bytes, gpus = json.loads(driver_answer(program, limit_s) or "[null, null]")
    return memory_bytes, gpus


def gpus_here(nvml: Any = None, environ: Mapping[str, str] = os.environ) -> tuple[int | None, int | None]:
    """Return the largest GPU's bytes and the number of visible ones, if any."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no library, no driver, or one of another version
        return None, None
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
        sizes = [int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles]
    except Exception:
        return None, None
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    count = len(sizes) if visible is None else min(len(list(filter(None, visible.split(",")))), len(sizes))
    return max(sizes, default=None), count or None
