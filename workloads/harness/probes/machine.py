"""A machine's fingerprint, its hash, and a bound of its CPU's speed."""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads.harness.probes.cloud import cloud
from workloads.harness.probes.code import code_facts
from workloads.harness.probes.cpu import ROOT, affinity, cpuinfo, numa_nodes, quota_cpus, read_text, whole
from workloads.harness.probes.frozen import reference_id
from workloads.harness.probes.memory import machine_bytes

FLAGS = {
    *("avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16"),
    *("asimd", "asimdhp", "sve", "bf16"),
}
VARIABLES = (
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "MKL_NUM_THREADS", "KMP_AFFINITY", "KMP_BLOCKTIME"),
    *("GOMP_CPU_AFFINITY", "OPENBLAS_NUM_THREADS", "MALLOC_CONF", "LD_PRELOAD", "ONEDNN_MAX_CPU_ISA"),
    *("ONEDNN_DEFAULT_FPMATH_MODE", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING", "CUDA_LAUNCH_BLOCKING"),
    *("NVIDIA_TF32_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG"),
    *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NCCL_P2P_DISABLE", "NCCL_ALGO", "NCCL_PROTO"),
)
_SOURCES = {
    **dict.fromkeys(("cpu_model", "sockets", "physical_cores", "hypervisor", "cpu_mhz_max"), "proc/cpuinfo"),
    "memory_total_bytes": "proc/meminfo",
    "system_vendor": "sys/class/dmi/id/sys_vendor",
    "system_product": "sys/class/dmi/id/product_name",
    "instance_type": "sys/class/dmi/id/product_name",
    "nvidia_driver": "proc/driver/nvidia/version",
}
# What makes two machines comparable. Left out are names, readings, and facts that can differ on the same
# machine: host, commit, code, MHz, kernel build, environment variables.
_MACHINE = (
    *("arch", "cpu_model", "sockets", "physical_cores", "logical_cpus", "affinity_cpus", "quota_cpus"),
    *("cpu_flags", "hypervisor", "instance_type", "nvidia_driver"),
)
_STACK = ("torch", "cuda")
_COMPARABLE_GPU = (
    *("name", "driver", "memory_total_bytes", "power_limit_w", "sm_clock_max_mhz", "pcie_gen_max"),
    *("pcie_width", "ecc", "mig"),
)
# The highest clock of any CPU sold: 6.2 GHz (Intel Core i9-14900KS).
_MAX_HZ = 6.2e9
# FLOP per cycle and thread in fp32, a fused multiply-add being two: two 512-bit units, two 256-bit units, one
# 256-bit multiply next to one add (Intel 64 Optimization Manual; AMD Zen 5 has the same two 512-bit units).
# Arm servers have at most four 128-bit units (Neoverse V2 Software Optimization Guide): 32, here doubled.
_AVX512, _AVX2, _BASE, _ARM = 64.0, 32.0, 16.0, 64.0
# Intel states 1024 bf16 FLOP per cycle and core for AMX (4th Gen Xeon); doubled for what comes after it.
_AMX = 2048.0


def fingerprint(root: Path = ROOT, gpus: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Describe the machine and its software, as JSON-able values. Never raises.

    `gpus` are by `Gpu.describe`. `quota_cpus` None means no limit; `reference` is the id of the frozen
    environment that this process runs in; `missing` explains other Nones.
    """
    where, nowhere = cloud(root, os.environ)
    firmware = _firmware(root)
    facts = {
        "hostname": platform.node(),
        "os": _os(root),
        "kernel": platform.release(),
        "arch": platform.machine(),
        **_cpu(root),
        "affinity_cpus": len(affinity()),
        "numa_nodes": numa_nodes(root),
        "quota_cpus": quota_cpus(root),
        "memory_total_bytes": machine_bytes(root),
        "container": container(root, os.environ),
        **firmware,
        **where,
        "instance_type": where["instance_type"] or firmware["instance_type"],
        "nvidia_driver": _nvidia_driver(root),
        "gpus": [dict(gpu) for gpu in gpus],
        "python": platform.python_version(),
        **_torch(),
        "numpy": _version("numpy"),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        **code_facts(),
        "reference": reference_id(),
    }
    sources = {
        name: read_text(root / source)[1] or f"{root / source} does not state it"
        for name, source in _SOURCES.items()
    }
    why = nowhere | sources
    return facts | {"missing": {name: text for name, text in why.items() if facts[name] is None}}


def environment_id(facts: Mapping[str, Any]) -> str:
    """Return 12 hex digits of a hash over hardware, driver and stack.

    Memory counts in whole GiB and Python by its minor version, because kernels and patches move the rest.
    """
    stack = {name: facts.get(name) for name in _STACK}
    return _hash(_machine(facts) | stack | {"python": str(facts.get("python") or "").split(".")[:2]})


def machine_id(facts: Mapping[str, Any]) -> str:
    """Return 12 hex digits of a hash over hardware and driver alone."""
    return _hash(_machine(facts))


def _machine(facts: Mapping[str, Any]) -> dict[str, Any]:
    parts: dict[str, Any] = {name: facts.get(name) for name in _MACHINE}
    parts["memory_gib"] = round((facts.get("memory_total_bytes") or 0) / 2**30)
    parts["gpus"] = [{name: gpu.get(name) for name in _COMPARABLE_GPU} for gpu in facts.get("gpus") or ()]
    return parts


def _hash(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def peak_flops_bound(facts: Mapping[str, Any], threads: int, precision: str) -> float | None:
    """Return the CPU's generous upper bound in FLOP/s with `threads`, to call a rate impossible.

    tf32 counts like bf16, because oneDNN can compute it so; half precisions without own instructions get
    twice fp32's rate.
    """
    flags = set(facts.get("cpu_flags") or ())
    if facts.get("arch") in ("aarch64", "arm64") and "asimd" in flags:
        fp32, half = _ARM, 4 * _ARM  # BFMMLA does four times fp32's work per instruction
    elif facts.get("arch") in ("x86_64", "AMD64"):
        fp32 = _AVX512 if "avx512f" in flags else _AVX2 if {"avx2", "fma"} <= flags else _BASE
        half = _AMX if flags & {"amx_bf16", "amx_fp16"} else 2 * fp32
    else:
        return None  # Apple's matrix units are outside its cores, and their rates aren't published
    return max(threads, 1) * _MAX_HZ * (fp32 if precision == "fp32" else half)


def _os(root: Path) -> str:
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]+)', read_text(root / "etc/os-release")[0], re.MULTILINE)
    return pretty[1] if pretty else platform.system()


def _cpu(root: Path) -> dict[str, Any]:
    blocks = cpuinfo(root)
    first = blocks[0] if blocks else {}
    flags = set((first.get("flags") or first.get("Features") or "").split())
    places = {(block.get("physical id"), block["core id"]) for block in blocks if "core id" in block}
    part = f"Arm {first['CPU implementer']} {first.get('CPU part')}" if "CPU implementer" in first else None
    speeds = [
        float(mhz) for block in blocks if re.fullmatch(r"\d{1,6}(\.\d*)?", mhz := block.get("cpu MHz", ""))
    ]
    with suppress(ValueError):
        speeds.append(
            whole(read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")[0]) / 1e3
        )
    return {
        "cpu_model": first.get("model name") or part or platform.processor() or None,
        "sockets": len({block["physical id"] for block in blocks if "physical id" in block}) or None,
        "physical_cores": len(places) or None,
        "logical_cpus": len(blocks) or os.cpu_count(),
        "cpu_flags": sorted(flags & FLAGS),
        "cpu_mhz_max": max(speeds, default=None),
        "hypervisor": "hypervisor" in flags if flags else None,
    }


def container(root: Path, environ: Mapping[str, str]) -> str | None:
    for variable, name in (
        ("KUBERNETES_SERVICE_HOST", "kubernetes"),
        ("ECS_CONTAINER_METADATA_URI_V4", "ecs"),
        ("SINGULARITY_CONTAINER", "apptainer"),
    ):
        if variable in environ:
            return name
    marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
    return next((name for mark, name in marks.items() if os.path.exists(root / mark)), None)


def _firmware(root: Path) -> dict[str, Any]:
    folder = root / "sys/class/dmi/id"
    vendor, product = (read_text(folder / name)[0].strip() or None for name in ("sys_vendor", "product_name"))
    return {
        "system_vendor": vendor,
        "system_product": product,
        "instance_type": product if vendor == "Amazon EC2" else None,  # the others write no type there
    }


def _nvidia_driver(root: Path) -> str | None:
    match = re.search(r"\s(\d{3,4}\.\d+(\.\d+)?)\s", read_text(root / "proc/driver/nvidia/version")[0])
    return match[1] if match else None


def _torch() -> dict[str, Any]:
    versions: dict[str, Any] = {"torch": None, "cuda": None}
    with suppress(Exception):
        spec = importlib.util.find_spec("torch")
        text = read_text(Path(spec.origin or "").parent / "version.py")[0] if spec else ""
        for name, mark in (("torch", "__version__"), ("cuda", "cuda")):
            match = re.search(rf"^{mark}\b[^=\n]*= '([^']+)'", text, re.MULTILINE)
            versions[name] = match[1] if match else None
    versions["torch"] = versions["torch"] or _version("torch")
    return versions


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except Exception:
        return None
