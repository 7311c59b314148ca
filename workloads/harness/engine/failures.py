"""Turn exceptions of a workload or device into verdicts; user mistakes stay errors."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from workloads.harness.engine.correctness import IN_REFERENCE, WrongError
from workloads.harness.engine.device import UnsupportedError
from workloads.harness.probes.device_here import FABRIC, is_not_ready
from workloads.harness.records import out_of_memory
from workloads.harness.records.case import Case, smaller
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Verdict
from workloads.harness.records.text import gigabytes
from workloads.harness.records.verdict import Finding

IN_CAPTURE = "in the capture"  # the note on an error that was raised while a CUDA graph was captured
# All compared in lower case.
# cuDNN's errors for a convolution that it can't compute, and for one whose plans all ran out of memory.
NO_PLAN = ("unable to find an engine", "unable to find a valid cudnn algorithm")
FULL_SHARE = 0.8  # of a GPU's memory: above it there was no room for a plan's workspace
UNSUPPORTED = (
    *("not implemented for '", "no kernel image is available", "status_not_supported", "arch_mismatch"),
    *(*NO_PLAN, "is only supported on", "no working c++ compiler found", "cannot find a working triton"),
    *("too old to be supported by the triton", "low precision dtypes not supported", "unsupported dtype"),
    "path needs the cpu support",
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
    findings: list[Finding] = []
    try:
        yield findings
    except UnsupportedError as error:
        findings.append((Verdict.UNSUPPORTED, printable(str(error))))
    except WrongError as error:
        findings.append((Verdict.WRONG, printable(str(error))))
    except WorkloadsError:
        raise
    except Exception as error:  # a workload can raise anything, and its record must still be written
        findings.append(finding(error, case))


def finding(error: Exception, case: Case) -> Finding:
    whole = str(error).strip()
    text = printable(next(iter(whole.splitlines()), type(error).__name__))[:300]
    lowered = whole.lower()
    kinds = {kind.__name__ for kind in type(error).__mro__}  # by name, because this must not import torch
    no_memory = kinds & {"MemoryError", "OutOfMemoryError"} or out_of_memory.says_so(whole)
    if no_memory or (any(words in lowered for words in NO_PLAN) and _gpu_was_full()):
        wanted = text
        if match := _WANTED.search(whole):
            wanted = f"{gigabytes(float(match[1]) * _UNITS[match[2].lower()])} more could not be allocated"
        why = f"at {case.size_text}: {wanted}{smaller(case)}"
        if IN_REFERENCE in getattr(error, "__notes__", ()):
            said = "the step ran, but its result is unchecked: memory ran out while computing the reference"
            return Verdict.UNCHECKED, f"{said} {why}"
        return Verdict.OUT_OF_MEMORY, f"memory ran out {why}"
    if is_not_ready(whole):
        return Verdict.UNSUPPORTED, FABRIC
    if any(words in lowered for words in DRIVER):
        advice = "install a newer driver, or a torch built for an older CUDA"
        return Verdict.UNSUPPORTED, f"the NVIDIA driver does not support this torch: {text}; {advice}"
    if IN_CAPTURE in getattr(error, "__notes__", ()):
        return Verdict.UNSUPPORTED, f"torch can't capture this step as a CUDA graph: {text}"
    if isinstance(error, NotImplementedError) or any(words in lowered for words in UNSUPPORTED):
        return (
            Verdict.UNSUPPORTED,
            f"this device or torch build does not support the step in {case.precision}: {text}",
        )
    return Verdict.CRASHED, f"the workload raised {type(error).__name__}: {text}"


def _gpu_was_full() -> bool:
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):
        if torch and torch.cuda.is_initialized():
            free, total = torch.cuda.mem_get_info()
            return bool(torch.cuda.memory_stats().get("num_ooms", 0) or 1 - free / total > FULL_SHARE)
    return False
