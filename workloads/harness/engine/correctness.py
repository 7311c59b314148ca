"""Compare results with references: a wrong result has no time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workloads.harness.prepared import Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Check

if TYPE_CHECKING:
    import torch

# Relative error in the 2-norm. Unit round-offs are 6e-8, 4.9e-4, 4.9e-4 and 3.9e-3; sums increase them. The
# factors of a product in fp8 are exact, and its sum is in bf16.
BOUNDS = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 2e-2, "fp8": 2e-2}
FALLS_WITHIN = 10  # steps
IN_REFERENCE = "in the reference"  # the note on an error that the reference raised


class WrongError(WorkloadsError):
    """The result differs from the reference, or could be a wrong one."""


def first_step(prepared: Prepared) -> torch.Tensor:
    if prepared.reset:
        prepared.reset()
    with prepared.watched():
        return prepared.step()


def check(prepared: Prepared, result: torch.Tensor, precision: str) -> Check:
    """Compare each part of a result with the float64 reference, or raise WrongError."""
    bound = BOUNDS[precision] * prepared.tolerance
    seen = _parts(prepared.view(result))
    try:
        exact = _parts(prepared.reference())
    except Exception as error:
        error.add_note(IN_REFERENCE)
        raise
    errors = [_error(*pair) for pair in zip(seen, exact, strict=True)]
    if not max(errors) <= bound:
        raise WrongError(
            f"the result is off by {max(errors):.2g} (relative, 2-norm); {precision} allows {bound:.0e}"
        )
    place = prepared.inputs[0].device.type if prepared.reference_on_device else "cpu"
    return Check(
        max(errors), bound, sum(part.numel() for part in seen), f"{prepared.reference_dtype} on {place}"
    )


def _parts(result: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
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
    """Raise WrongError for inputs that could make a device seem fast: constant, not finite, or none."""
    if not prepared.inputs:
        raise WrongError(
            "the workload lists no inputs, so a cached result can't be distinguished from a computed one"
        )
    for number, tensor in enumerate(t for t in prepared.inputs if t.is_floating_point()):
        values = (
            tensor.detach() if tensor.element_size() > 1 else tensor.detach().half()
        )  # fp8 has no aminmax
        low, high = (float(bound) for bound in values.aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise WrongError(f"input {number} holds NaN or infinite values")
        if low == high:
            raise WrongError(f"input {number} is constant ({low:g}): its speed is not that of real data")


def recheck(prepared: Prepared, result: torch.Tensor, precision: str) -> Check:
    """Check a timed step's result, and a step on inputs changed in place.

    This finds a step that returns an earlier result or does not read its inputs. The reference begins anew,
    without the last loss of a training.
    """
    import torch

    if not prepared.is_training:
        try:
            check(prepared, result, precision)
        except WrongError as error:
            raise WrongError(f"after timing, {error}") from None
    with torch.inference_mode():  # a result that was made in this mode can only be changed in it
        result.detach().fill_(math.nan)
    del result  # frees its memory for the next step, if the caller does not hold it
    for tensor in prepared.inputs:
        values = tensor.detach() if tensor.element_size() > 1 else tensor.detach().view(torch.uint8)  # fp8
        for part in values.chunk(16):
            part.copy_(part.roll(part.numel() // 3 + 1))
    try:
        return check(prepared, first_step(prepared), precision)
    except WrongError as error:
        raise WrongError(f"with changed inputs, {error}: the result does not depend on the inputs") from None


def check_loss(first: float, last: float, steps: int) -> None:
    """Raise WrongError if a loss is not finite, or not below the first after `FALLS_WITHIN` steps."""
    if not math.isfinite(last):
        raise WrongError(f"after {steps} steps the loss is {last}")
    if steps >= FALLS_WITHIN and last >= first:
        raise WrongError(f"the loss did not fall: it was {first:.4g} and is {last:.4g} after {steps} steps")
