"""Predict a case's memory: the engine's stages, computed without values."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from workloads.harness.checks.fakes import Fakes, faked
from workloads.harness.checks.fits import NCCL_BYTES, Fit, Needs, Room, StepWork, fit, grown_by, largest
from workloads.harness.engine.correctness import first_step
from workloads.harness.engine.count import counted
from workloads.harness.engine.device import dtype_of
from workloads.harness.engine.transfer import size_bytes
from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.records.case import Case
from workloads.harness.records.script import OWN, Script
from workloads.harness.registry import find

# The number of pieces in which inputs are changed in place: workloads.harness.engine.correctness.
PIECES = 16
# The buffer on a GPU through which transfers are timed: workloads.harness.engine.transfer.
BUFFER_BYTES = 2**26
# Represents a GPU: a second device, whose kernels and autocast every build of torch has. A build without CUDA
# aborts at the gradient of a fake CUDA tensor.
OTHER = torch.device("cpu", 0)
ALIKE = {"tf32": "fp32", "fp16": "bf16"}  # of one size; some models refuse fp16 on what looks like a CPU


def answer(order: Mapping[str, Any]) -> dict[str, object]:
    """Answer one question of `python -m workloads needs`.

    Args:
        order: a case's `workload`, `size`, `precision` and `device`; `room_bytes` and `processes` of a
            machine, to find the largest size that should fit; `script`, after which this process is unusable;
            `step`, to count a step's work.
    """
    device, size, best = order["device"], order["size"], None
    if (given := order.get("script")) and given.get("program"):
        needs, case = Needs(device, None, None, "only a run shows the memory of a command"), Case.of("", size)
    elif given:
        from workloads.harness.checks.script_needs import script_needs

        case = Case.of(order["workload"], size, OWN)
        script = Script(**given | {"command": tuple(given["command"])})
        needs = script_needs(script, case, device, bool(order.get("step")))
    else:
        case = find(order["workload"]).case(size, order["precision"])
        needs = needs_of(case, device, bool(order.get("step")))
    if order.get("room_bytes"):
        room = Room("", order["room_bytes"], order.get("processes") or 1)
        if fit(needs, room) in (Fit.NO, Fit.CLOSE):  # seconds more for each try
            best = largest(case, room, lambda smaller: needs_of(smaller, device))
    return {
        "tensors_bytes": needs.tensors_bytes,
        "peak_bytes": needs.peak_bytes,
        "reason": needs.reason,
        "step": needs.step,
        "grown_by": grown_by(case),
        "largest": best,
    }


def needs_of(case: Case, device: str, with_step: bool = False) -> Needs:
    """Predict the memory of a measuring process; on a GPU only the GPU's."""
    workload, sizes = find(case.workload), case.params
    if workload.scaling == "weak" and workload.wrapper == "DDP" and "processes" in sizes:
        sizes["processes"] = min(sizes["processes"], 2)
    precision = ALIKE.get(case.precision, case.precision) if device == "cuda" else case.precision
    return _needs_of(replace(workload.case(sizes, case.precision), precision=precision), device, with_step)


@cache
def _needs_of(case: Case, device: str, with_step: bool) -> Needs:
    try:
        tensors, peak, step = _peaks(case, device, with_step)
        return Needs(device, tensors, peak, step=step)
    except Exception as error:  # raised by torch, by a fake tensor that needs values, or by the workload
        first = next(iter(str(error).splitlines()), "")
        return Needs(device, None, None, f"{type(error).__name__}: {first}"[:200])
    finally:
        gc.collect()


def _peaks(case: Case, device: str, with_step: bool) -> tuple[int, int, StepWork | None]:
    workload, sizes = find(case.workload), dict(case.params)
    if "workers" in sizes:
        sizes["workers"] = 0  # loader processes hold no more than the inputs
    processes = sizes.get("processes", 1)
    torch_device = OTHER if device == "cuda" else torch.device("cpu")
    with faked(processes, torch_device) as fakes:
        env = Env(
            torch_device,
            dtype_of(case.precision),
            workload.layouts[0],
            torch.Generator().manual_seed(0),
            lambda tensor: tensor.to(torch_device),
            case.precision,
            world=processes,
        )
        thing = workload.build(env, **sizes)
        if isinstance(thing, Job):
            thing.warm_up()
        else:
            _step(thing, fakes, device)
        group_bytes = NCCL_BYTES if device == "cuda" and "processes" in sizes else 0
        tensors, peak = fakes.tensors[str(torch_device)], fakes.peak_bytes(torch_device) + group_bytes
        step = _work_of(thing, fakes) if with_step and not isinstance(thing, Job) else None
        return tensors, peak, step


def _work_of(prepared: Prepared, fakes: Fakes) -> StepWork:
    fakes.moved()
    with counted() as counts:
        prepared.step()
    moved_bytes, flops = fakes.moved()
    return StepWork(counts.flops + flops, moved_bytes, counts.launches)


def _step(prepared: Prepared, fakes: Fakes, device: str) -> None:
    with_reference = device == "cpu" or prepared.reference_on_device
    prepared.step()
    result = first_step(prepared)
    _check(prepared, result, with_reference)
    if device != "cpu":
        _transfer(prepared, result)
    del result
    result = prepared.step()
    if not prepared.is_training:
        _check(prepared, result, with_reference)
    elif device != "cpu":  # a repetition takes the same memory; the heap of a CPU has other holes by then
        return
    del result
    for tensor in prepared.inputs:
        part = tensor.detach().chunk(PIECES)[0]
        part.copy_(part.roll(1))
    _check(prepared, first_step(prepared), with_reference)


def _transfer(prepared: Prepared, result: torch.Tensor) -> None:
    """Take the buffer of the timed transfers; a function, so that `result` is freed early."""
    moved = [*(() if prepared.moves_inputs else prepared.inputs), result]
    longest = min(max(size_bytes([tensor]) for tensor in moved), BUFFER_BYTES)
    torch.zeros(longest, dtype=torch.uint8, device=result.device)


def _check(prepared: Prepared, result: torch.Tensor, with_reference: bool) -> None:
    seen = prepared.view(result)
    exact = prepared.reference() if with_reference else seen
    pairs = [parts if isinstance(parts, tuple) else (parts,) for parts in (seen, exact)]
    for one, other in zip(*pairs, strict=True):
        (one.detach().cpu().double() - other.detach().cpu().double()).norm()
