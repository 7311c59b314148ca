"""fp32 is IEEE and tf32 is TF32, in products and convolutions, and torch's switches stay readable."""

from collections.abc import Iterator
from functools import partial

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.cards import can
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import Row, holds, within

# Relative error (2-norm) of sums of 512 and 576 products: IEEE keeps 24 bits, TF32 11.
ERRORS = {"fp32": (0.0, 3e-6), "tf32": (1e-4, 2e-3)}


def arithmetic(precision: str, bench: Bench) -> Iterator[Row]:
    step = f"precise {precision}"
    if bench.card and not can(bench.card.capability, precision):
        yield holds(step, step, True, "this card has none, and runs of it must say unsupported")
        return
    read = bench.child("precision", bench.device, precision, limit_s=200)
    low, high = ERRORS[precision]
    for operation, error in read["errors"].items():
        yield within(step, f"{precision} {operation}: error", error, low, high)
    for name, value in read["switches"].items():
        yield holds(step, f"{precision}: {name} can be read", not value.startswith("raises"), value)


def steps(bench: Bench) -> list[Step]:
    precisions = ERRORS if bench.on_gpu else ["fp32"]
    return [Step(f"precise {precision}", 10, partial(arithmetic, precision)) for precision in precisions]
