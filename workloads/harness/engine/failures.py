"""Failures: an exception of a workload or a device becomes a verdict; a user's mistake stays an error."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from workloads.harness.engine.correctness import IN_REFERENCE, WrongError
from workloads.harness.engine.device import UnsupportedError
from workloads.harness.records import out_of_memory
from workloads.harness.records.case import Case, smaller
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Verdict
from workloads.harness.records.text import gigabytes
from workloads.harness.records.verdict import Finding

# All compared in lower case.
# cuDNN says so of a convolution that it can't compute, and of one whose plans have all run out of memory.
NO_PLAN = ("unable to find an engine", "unable to find a valid cudnn algorithm")
FULL_SHARE = 0.8  # of a GPU's memory: above it a plan's workspace is what had no room
UNSUPPORTED = (
    *("not implemented for '", "no kernel image is available", "status_not_supported", "arch_mismatch"),
    *NO_PLAN,
    "is only supported on",
    *(
        "no working c++ compiler found",
        "cannot find a working triton",
        "too old to be supported by the triton",
    ),
    *("low precision dtypes not supported", "unsupported dtype", "path needs the cpu support"),
)
DRIVER = (
    *(
        "driver on your system is too old",
        "driver version is insufficient",
        "no nvidia driver on your system",
    ),
    *("forward compatibility was attempted", "system has unsupported display driver"),
)
# "Tried to allocate 2.00 GiB" on CUDA, "you tried to allocate 160000000000 bytes" on a CPU
_WANTED = re.compile(r"tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}


@contextmanager
def findings_of_failures(case: Case) -> Iterator[list[Finding]]:
    """Catch what a measurement of `case` raises and leave it as a finding in the list that is yielded."""
    findings: list[Finding] = []
    try:
        yield findings
    except UnsupportedError as error:
        findings.append((Verdict.UNSUPPORTED, printable(str(error))))
    except WrongError as error:
        findings.append((Verdict.WRONG, printable(str(error))))
    except WorkloadsError:
        raise
    except Exception as error:  # a workload may raise anything, and its record must still be written
        findings.append(finding(error, case))


def finding(error: Exception, case: Case) -> Finding:
    """Turn an unexpected exception into a verdict and a sentence."""
    whole = str(error).strip()
    text = printable(next(iter(whole.splitlines()), type(error).__name__))[:300]
    lowered = whole.lower()
    no_memory = _is_memory_error(error) or out_of_memory.says_so(whole)
    if no_memory or (any(words in lowered for words in NO_PLAN) and _gpu_was_full()):
        why = f"at {case.size_text}: {_wanted(whole, text)}{smaller(case)}"
        if IN_REFERENCE in getattr(error, "__notes__", ()):
            said = "the step ran, but its result is unchecked: memory ran out while computing the reference"
            return Verdict.UNCHECKED, f"{said} {why}"
        return Verdict.OUT_OF_MEMORY, f"memory ran out {why}"
    if any(words in lowered for words in DRIVER):
        advice = "install a newer driver, or a torch built for an older CUDA"
        return Verdict.UNSUPPORTED, f"the NVIDIA driver does not support this torch: {text}; {advice}"
    if isinstance(error, NotImplementedError) or any(words in lowered for words in UNSUPPORTED):
        return (
            Verdict.UNSUPPORTED,
            f"this device or torch build does not support the step in {case.precision}: {text}",
        )
    return Verdict.CRASHED, f"the workload raised {type(error).__name__}: {text}"


def _is_memory_error(error: Exception) -> bool:
    """Recognise Python's or torch's memory error by name, because this must not import torch."""
    return any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__)


def _gpu_was_full() -> bool:
    """True if torch has been refused memory on the GPU, or hardly any is left; False without one."""
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):
        if torch and torch.cuda.is_initialized():
            free, total = torch.cuda.mem_get_info()
            return bool(torch.cuda.memory_stats().get("num_ooms", 0) or 1 - free / total > FULL_SHARE)
    return False


def _wanted(whole: str, text: str) -> str:
    """Say how much memory was asked for, or else quote the error."""
    match = _WANTED.search(whole)
    if match is None:
        return text
    return f"{gigabytes(float(match[1]) * _UNITS[match[2].lower()])} more could not be allocated"
