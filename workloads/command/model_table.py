"""Show a workload's model, layer by layer, without a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workloads.harness.engine.build import build
from workloads.harness.engine.device import open_device
from workloads.harness.engine.phases import Phases
from workloads.harness.prepared import Job
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import table
from workloads.harness.registry import find
from workloads.harness.training.layers import parameter_count

HEAD = ["layer", "kind", "output", "parameters"]


def model_table(case: Case, threads: int) -> str:
    """Build a case on the CPU, and show the first model that a step calls."""
    workload = find(case.workload)
    if workload.in_group or "cpu" not in workload.devices:
        raise WorkloadsError(
            f"{case.workload} does not run in one process on a CPU, as its model's table must"
        )
    repeat = Repeat("model", "here", case, threads=threads, trial=True)
    with _called() as shapes:
        thing = build(workload, repeat, open_device("cpu", case.precision, threads), Phases()).thing
        if isinstance(thing, Job) and not shapes:
            thing.warm_up()
    if not shapes:
        raise WorkloadsError(
            f"{case.workload} has no model; `python -m workloads list` names those that train"
        )
    model = list(shapes)[-1]  # it ends after all of its parts
    rows = []
    for name, part in model.named_modules():
        indented = f"{'  ' * name.count('.')}{name}" or "(whole)"
        count = sum(parameter.numel() for parameter in part.parameters(recurse=False))
        own = f"{count:,}" if count else ""
        rows.append([indented, type(part).__name__, shapes.get(part, "–"), own])
    flops = f"{thing.flops:.6g} FLOPs in {'the whole job' if isinstance(thing, Job) else 'a step'}"
    return f"{table([HEAD, *rows])}\n{case.id}: {parameter_count(model):,} trainable parameters, {flops}"


@contextmanager
def _called() -> Iterator[dict[Any, str]]:
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    shapes: dict[Any, str] = {}
    running: list[Any] = []
    whole = False

    def begin(part: Any, given: Any) -> None:
        running.append(part)

    def end(part: Any, given: Any, made: Any) -> None:
        nonlocal whole
        running.pop()
        if not whole:
            first = made if hasattr(made, "shape") else made[0]
            shapes.setdefault(part, " x ".join(map(str, first.shape)))
            whole = not running

    handles = [register_module_forward_pre_hook(begin), register_module_forward_hook(end)]
    try:
        yield shapes
    finally:
        for handle in handles:
            handle.remove()
