"""Decide whether a case fits a machine's memory, without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workloads.harness.records.case import Case
from workloads.harness.records.text import gigabytes
from workloads.harness.registry import find

# A process that has imported torch, and Prefect's process in a job: each took 0.25 GB with CPU builds.
PROCESS_BYTES = 2**29
# Memory of a CUDA process in addition to its tensors: the context, loaded kernels, handles. An H100 and an H200
# had 0.65 to 0.82 GB of it by NVML; cuBLAS has 34 MB more, which torch's allocator holds.
CONTEXT_BYTES = 2**30
# NCCL's buffers, of a process in a group: 0.6 GB on an H100, of a group of one.
NCCL_BYTES = 3 * 2**28
# Margins on the prediction, for fragments that an allocator can't use and for unknown memory of kernels. On a
# CPU, predictions for nine trainings and a ResNet inference were within 10 % of the median measured peak,
# others from 11 % above to 43 % below. On an H100 and an H200 the allocator held up to 1.1 times the prediction, in
# cases of more than 1 GB without convolutions.
HOST_SHARE, DEVICE_SHARE = 1.0, 0.2
USABLE = 0.9  # share of a GPU's nominal memory: T4, L4 and A10G give 0.91 to 0.92 of it to programs
GROWS = (
    "batch",
    "pixels",
    "n",
    "mib",
    "length",
    "samples",
    "images",
)  # sizes to reduce if a case is too large
CLOSE = 16  # the largest size that should fit is given to 1 part in 16


class Fit(StrEnum):
    """The answer for a case on a machine."""

    FITS = "fits"
    CLOSE = "too close to tell"
    NO = "does not fit"
    UNKNOWN = "unknown"


class StepWork(NamedTuple):
    """A step's FLOPs (without elementwise operations), bytes moved and launches."""

    flops: float
    moved_bytes: float
    launches: int


@dataclass(frozen=True, slots=True)
class Needs:
    """Predicted memory of one process, on the device that computes.

    Attributes:
        tensors_bytes: live tensors at the peak: no program can run with less.
        peak_bytes: the same with the allocator's holes and the kernels' memory; None if unknown.
        reason: why it is unknown; else empty.
        step: the work of a step, if requested.
    """

    device: str
    tensors_bytes: int | None
    peak_bytes: int | None
    reason: str = ""
    step: StepWork | None = None

    @property
    def most_bytes(self) -> float | None:
        """The upper estimate: with margins, and a process's memory without tensors."""
        if self.peak_bytes is None:
            return None
        if self.device == "cuda":
            return (1 + DEVICE_SHARE) * self.peak_bytes + CONTEXT_BYTES
        return (1 + HOST_SHARE) * self.peak_bytes + PROCESS_BYTES


@dataclass(frozen=True, slots=True)
class Room:
    """The nominal memory of a GPU or a host, and the processes that share it."""

    machine: str
    bytes: float
    processes: int = 1


def fit(needs: Needs, room: Room) -> Fit:
    if needs.tensors_bytes is None or needs.most_bytes is None:
        return Fit.UNKNOWN
    usable = USABLE if needs.device == "cuda" else 1.0
    if needs.most_bytes * room.processes <= usable * room.bytes:
        return Fit.FITS
    return Fit.NO if needs.tensors_bytes * room.processes > room.bytes else Fit.CLOSE


def grown_by(case: Case) -> str | None:
    return next((name for name in GROWS if name in case.params), None)


def largest(case: Case, room: Room, predict: Callable[[Case], Needs]) -> int | None:
    """Return the largest value below a case's growing size that should fit, to 1 part in 16."""
    name = grown_by(case)
    if name is None:
        return None
    workload, fits, over = find(case.workload), 0, case.params[name]
    step = (workload.multiples(**case.params) if workload.multiples else {}).get(name, 1)
    while over - fits > max(fits // CLOSE, step):
        value = max((fits + over) // 2 // step * step, step)
        if value <= fits or value >= over:
            break
        tried = workload.case(case.params | {name: value}, case.precision)
        if fit(predict(tried), room) is Fit.FITS:
            fits = value
        else:
            over = value
    return fits or None


def sentence(needs: Needs, room: Room, best: str = "") -> str:
    """Say why a case does not fit; `best` is a size that should, such as `batch=96`."""
    assert needs.tensors_bytes is not None
    together = f" of {room.processes} processes" if room.processes > 1 else ""
    needed, has = gigabytes(needs.tensors_bytes * room.processes), gigabytes(room.bytes)
    text = f"the tensors{together} alone need {needed} (predicted), and {room.machine} has {has}"
    return f"{text}; {best} should fit" if best else text
