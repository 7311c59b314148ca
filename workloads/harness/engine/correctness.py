"""Correctness: a wrong result has no time. Results are compared with float64 before and after the timing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workloads.harness.prepared import Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Check

if TYPE_CHECKING:
    import torch

# Relative error in the 2-norm. Unit round-offs are 6e-8, 4.9e-4, 4.9e-4 and 3.9e-3; sums add to them. The
# factors of a product in fp8 are exact, and its sum is in bf16.
BOUNDS = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 2e-2, "fp8": 2e-2}
FALLS_WITHIN = 10  # steps
IN_REFERENCE = "in the reference"  # the note on an error that no step has raised


class WrongError(WorkloadsError):
    """The result differs from the reference, or can't be distinguished from a wrong one."""


def first_step(prepared: Prepared) -> torch.Tensor:
    """Take a step from the beginning, recorded, so that the reference can do the same."""
    if prepared.reset:
        prepared.reset()
    with prepared.watched():
        return prepared.step()


def check(prepared: Prepared, result: torch.Tensor, precision: str) -> Check:
    """Compare a step's result with the float64 reference, each part for itself: the worst one counts.

    Raises:
        WrongError: the result has another shape, is not finite, or is further off than the precision's bound.
    """
    bound = BOUNDS[precision] * prepared.tolerance
    seen, exact = _parts(prepared.view(result)), _parts(_reference(prepared))
    errors = [_error(*pair) for pair in zip(seen, exact, strict=True)]
    if not max(errors) <= bound:
        raise WrongError(
            f"the result is off by {max(errors):.2g} (relative, 2-norm); {precision} allows {bound:.0e}"
        )
    return Check(max(errors), bound, sum(part.numel() for part in seen))


def _reference(prepared: Prepared) -> torch.Tensor | tuple[torch.Tensor, ...]:
    try:
        return prepared.reference()
    except Exception as error:
        error.add_note(IN_REFERENCE)
        raise


def _parts(result: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the relative error in the 2-norm."""
    seen = result.detach().cpu().double()
    if seen.shape != exact.shape:
        raise WrongError(f"the result has shape {tuple(seen.shape)}, the reference {tuple(exact.shape)}")
    if exact.numel() == 0:
        raise WrongError("the size is too small to check any element of the result; choose a larger one")
    bad = int((~seen.isfinite()).sum())
    if bad:
        raise WrongError(f"{bad} of {seen.numel()} checked elements of the result are NaN or infinite")
    error = float((seen - exact).norm() / exact.norm().clamp_min(1e-300))
    return error if math.isfinite(error) else math.inf


def check_inputs(prepared: Prepared) -> None:
    """Refuse inputs that could make a device look fast.

    Raises:
        WrongError: an input is constant, such as all zeros, or not finite; or there is none to change.
    """
    if not prepared.inputs:
        raise WrongError(
            "the workload lists no inputs, so a cached result can't be distinguished from a computed one"
        )
    for number, tensor in enumerate(t for t in prepared.inputs if t.is_floating_point()):
        low, high = (float(bound) for bound in _readable(tensor.detach()).aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise WrongError(f"input {number} holds NaN or infinite values")
        if low == high:
            raise WrongError(f"input {number} is constant ({low:g}): its speed is not that of real data")


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor, one of fp8 in fp16: torch does nothing with fp8 but products."""
    return tensor if tensor.element_size() > 1 else tensor.half()


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of a tensor whose values can be moved about: of fp8 as bytes."""
    import torch

    return tensor if tensor.element_size() > 1 else tensor.view(torch.uint8)


def recheck(prepared: Prepared, result: torch.Tensor, precision: str) -> Check:
    """Check a timed step's result, then spoil it, change the inputs in place, and check a step on those.

    A step that hands out an earlier result, or computes from anything but its inputs, fails here. The last
    loss of a training can't be known to a reference that begins anew: `check_loss` looks at that.

    Raises:
        WrongError: as `check`, saying which of the two it was.
    """
    import torch

    if not prepared.is_training:
        try:
            check(prepared, result, precision)
        except WrongError as error:
            raise WrongError(f"after timing, {error}") from None
    with torch.inference_mode():  # which may have made the result, and then allows nobody else to change it
        result.detach().fill_(math.nan)
    del result  # a caller that has given it away has its memory back for the next step
    for tensor in prepared.inputs:
        for part in _moved(tensor.detach()).chunk(16):
            part.copy_(part.roll(part.numel() // 3 + 1))
    try:
        return check(prepared, first_step(prepared), precision)
    except WrongError as error:
        raise WrongError(f"with changed inputs, {error}: the result does not depend on the inputs") from None


def check_loss(first: float, last: float, steps: int) -> None:
    """Check that a training has learnt: given enough steps, its loss must have fallen.

    Raises:
        WrongError: the last loss is not finite, or is no lower than the first after `FALLS_WITHIN` steps.
    """
    if not math.isfinite(last):
        raise WrongError(f"after {steps} steps the loss is {last}")
    if steps >= FALLS_WITHIN and last >= first:
        raise WrongError(f"the loss did not fall: it was {first:.4g} and is {last:.4g} after {steps} steps")
