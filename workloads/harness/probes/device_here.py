"""The device that commands use if none is given: a GPU that torch sees, or the CPU."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError

DRIVER_FILES = tuple(
    map(Path, ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg"))
)  # the last of Windows Subsystem for Linux
ANSWER_S = 120.0  # torch takes seconds to import, on a cold disk a minute
QUESTION = "import torch; print(torch.cuda.device_count())"


def device_here(
    files: Sequence[Path] = DRIVER_FILES, question: str = QUESTION, timeout_s: float = ANSWER_S
) -> str:
    """Return `cuda` if there is a driver and torch sees a GPU through it, else `cpu`.

    Torch is asked in a process of its own: a driver that hangs or crashes must not take this one along.

    Raises:
        WorkloadsError: there is a driver, but torch did not answer in time.
    """
    if not any(file.exists() for file in files):
        return "cpu"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", question], capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise WorkloadsError(
            f"the NVIDIA driver did not answer within {timeout_s:g} s; repair it, or measure the CPU with --device cpu"
        ) from None
    if asked.returncode < 0:
        raise WorkloadsError(
            f"the NVIDIA driver ended torch with signal {-asked.returncode}; repair it, or give --device cpu"
        )
    count = asked.stdout.strip()
    return "cuda" if asked.returncode == 0 and count.isdigit() and int(count) else "cpu"
