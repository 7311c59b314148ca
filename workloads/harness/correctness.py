"""A wrong answer has no time: results are held against float64, before the timing and again after it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workloads.harness.errors import WorkloadsError
from workloads.harness.prepared import Prepared
from workloads.harness.record import Check

if TYPE_CHECKING:
    import torch

# Relative error in the 2-norm. Unit round-offs are 6e-8, 4.9e-4, 4.9e-4 and 3.9e-3; sums add to them.
BOUNDS = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 2e-2}


class WrongError(WorkloadsError):
    """The result is not what the reference says, or can't be told from a wrong one."""


def check(prepared: Prepared, result: torch.Tensor, precision: str) -> Check:
    """Compare a step's result with the float64 reference.

    Raises:
        WrongError: the result has another shape, is not finite, or is further off than the precision's bound.
    """
    seen = prepared.view(result).detach().cpu().double()
    wanted = prepared.reference()
    if seen.shape != wanted.shape:
        raise WrongError(f"the result has shape {tuple(seen.shape)}, the reference {tuple(wanted.shape)}")
    if wanted.numel() == 0:
        raise WrongError("the size is too small to check any element of the result; choose a larger one")
    bad = int((~seen.isfinite()).sum())
    if bad:
        raise WrongError(f"{bad} of {seen.numel()} checked elements of the result are NaN or infinite")
    error = float((seen - wanted).norm() / wanted.norm().clamp_min(1e-300))
    bound = BOUNDS[precision]
    if not math.isfinite(error) or error > bound:
        raise WrongError(
            f"the result is off by {error:.2g} (relative, 2-norm); {precision} allows {bound:.0e}"
        )
    return Check(error, bound, seen.numel())


def check_inputs(prepared: Prepared) -> None:
    """Refuse inputs on which a device could be quick by luck.

    Raises:
        WrongError: an input is constant, such as all zeros, or not finite; or there is none to change.
    """
    if not prepared.inputs:
        raise WrongError("the workload names no inputs: a kept result can't be told from a computed one")
    for place, tensor in enumerate(t for t in prepared.inputs if t.is_floating_point()):
        low, high = (float(bound) for bound in tensor.aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise WrongError(f"input {place} holds NaN or infinite values")
        if low == high:
            raise WrongError(f"input {place} is constant ({low:g}): its speed says nothing of real data")


def recheck(prepared: Prepared, result: torch.Tensor, precision: str) -> Check:
    """Check a timed step's result, then spoil it, change the inputs in place, and check a step on those.

    A step that hands out an earlier result, or computes from anything but its inputs, fails here.

    Raises:
        WrongError: as `check`, saying which of the two it was.
    """
    try:
        check(prepared, result, precision)
    except WrongError as error:
        raise WrongError(f"after timing, {error}") from None
    result.detach().fill_(math.nan)
    for tensor in prepared.inputs:
        for part in tensor.detach().chunk(16):
            part.copy_(part.roll(part.numel() // 3 + 1))
    try:
        return check(prepared, prepared.step(), precision)
    except WrongError as error:
        raise WrongError(f"with changed inputs, {error}: it does not follow its inputs") from None
