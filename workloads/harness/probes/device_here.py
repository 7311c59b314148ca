"""Ask the NVIDIA driver by a child process: it can hang or kill its caller."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import workloads
from workloads.harness.records.errors import WorkloadsError

DRIVER_FILES = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia"), Path("/dev/dxg"))  # the last of WSL
ANSWER_S = 120.0  # torch takes seconds to import, on a cold disk a minute
COUNT = """
import torch
count, why = torch.cuda.device_count(), ""
if not (can := torch.cuda.is_available()):
    try:
        torch.cuda.init()
    except Exception as error:
        why = " ".join(str(error).split())
print(count, can, why)
"""
# CUDA's error 802, cudaErrorSystemNotReady, in lower case: on a machine with NVSwitch no card computes before the
# fabric manager has registered it (docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide).
NOT_READY = ("system not yet initialized", "system_not_ready", "systemnotready", "error 802")
FABRIC = (
    "CUDA says that the system is not ready (error 802): NVSwitch is not set up. Start nvidia-fabricmanager, in the "
    "driver's own version, or return the machine"
)
HERE = Path(str(workloads.__file__)).parents[1]


def device_here(
    files: Sequence[Path] = DRIVER_FILES, question: str = COUNT, limit_s: float = ANSWER_S
) -> str:
    """Return `cuda` if torch sees a GPU through a driver, else `cpu`.

    Raises:
        WorkloadsError: the driver hangs or crashes, or has GPUs that torch cannot use.
    """
    if not has_driver(files):
        return "cpu"
    count, can, why = (*driver_answer(question, limit_s).strip().split(" ", 2), "", "", "")[:3]
    if can != "True" and is_not_ready(why):
        raise WorkloadsError(
            f"torch can't use the GPUs of this machine: {FABRIC}; --device cpu measures the CPU"
        )
    if not (count.isdigit() and int(count)):
        return "cpu"
    if can != "True":
        raise WorkloadsError(
            f"there are {count} GPUs, but torch can't use them: the driver is too old for this torch, or not ready. "
            "Repair it, or name the CPU"
        )
    return "cuda"


def has_driver(files: Sequence[Path] = DRIVER_FILES) -> bool:
    return any(file.exists() for file in files)


def is_not_ready(error: str) -> bool:
    return any(words in error.lower() for words in NOT_READY)


def driver_answer(question: str, limit_s: float = ANSWER_S) -> str:
    """Return the last line printed by a Python program that asks the driver, or raise WorkloadsError.

    A hanging driver can put its caller into a state that no signal ends, so there is no wait for it.
    """
    asked = subprocess.Popen(
        [sys.executable, "-c", question],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE,
    )
    try:
        answer, _ = asked.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            asked.kill()
        raise WorkloadsError(
            f"the NVIDIA driver does not answer within {limit_s:g} s: it hangs. Repair it or return the machine; "
            "--device cpu measures the CPU"
        ) from None
    if asked.returncode < 0:
        raise WorkloadsError(
            f"the NVIDIA driver ended the program that asked it, by signal {-asked.returncode}. Repair it or return "
            "the machine; --device cpu measures the CPU"
        )
    lines = answer.splitlines() if asked.returncode == 0 else []
    return lines[-1] if lines else ""  # a sitecustomize can print above it
