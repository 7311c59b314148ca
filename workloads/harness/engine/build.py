"""Build a workload in its case's mode and fastest layout."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.harness.engine.clock import Step
from workloads.harness.engine.count import Counts, counted
from workloads.harness.engine.device import (
    KERNELS,
    Device,
    UnsupportedError,
    ask_first,
    dtype_of,
    has_kernels,
    search_algorithms,
)
from workloads.harness.engine.failures import IN_CAPTURE
from workloads.harness.engine.phases import Phases
from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.records.case import CAPTURED, COMPILED, EAGER
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import Workload

if TYPE_CHECKING:
    import torch


TRIALS = 2  # blocks per turn, of which the best counts
TRIAL_S = 0.05  # of a block: a single step of a GPU is as long as the wait for its end
SPIN_S = 0.3  # of steps before the first trial, while a GPU's clock rises from idle
CLEARLY_FASTER = 0.95  # another layout is taken when it needs less than this share of the time


@dataclass(frozen=True, slots=True)
class Built:
    """A built workload, its layout, the seconds per step of all layouts, and an eager step's `counts`."""

    thing: Prepared | Job
    layout: str
    trials_s: dict[str, float]
    counts: Counts | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The arguments of building a workload; `made` holds built steps by memory layout, at most one."""

    workload: Workload
    repeat: Repeat
    device: Device
    phases: Phases
    rank: int
    world: int
    counts: list[Counts] = field(default_factory=list)
    made: dict[str, Prepared | Job] = field(default_factory=dict)


def build(
    workload: Workload, repeat: Repeat, device: Device, phases: Phases, rank: int = 0, world: int = 1
) -> Built:
    """Build process `rank`'s part in the fastest layout; one is in memory at a time."""
    order, mode = Order(workload, repeat, device, phases, rank, world), repeat.case.mode
    with phases("compile" if mode in COMPILED else "build"):
        check_mode(device, mode)
    layout, *others = layouts_of(workload, repeat, device, world)
    trials_s: dict[str, float] = {}
    if others and mode in COMPILED and not repeat.trial:
        with phases("layout"):
            layout, trials_s = _tried_as_written(order)
        others = []
    with phases("build"):
        prepared = _build_one(order, layout)
    is_idle = not repeat.brief and not repeat.trial and (bool(others) or not device.is_host)
    if isinstance(prepared, Job):  # it has no step to try layouts with, and searches in its warm-up
        with phases("search"):
            if is_idle:
                _spin(prepared.warm_up, device)
            search_algorithms()
        return Built(prepared, layout, trials_s)
    with phases("first_call"):
        device.clock.time(prepared.step, 1)
    with phases("search"):
        _search(prepared, device, is_idle)
    if not others or repeat.trial:
        return Built(prepared, layout, trials_s, *order.counts[-1:])
    held = [prepared]
    del prepared
    with phases("layout"):
        return _compared(order, held, (layout, *others))


def layouts_of(workload: Workload, repeat: Repeat, device: Device, world: int) -> list[str]:
    """Return the layouts to try, torch's default first, such as `contiguous` or `contiguous+cudnn`."""
    layouts = list(workload.layouts)
    if repeat.case.mode in COMPILED:  # torch's compiler chooses memory layouts itself, but no kernels
        layouts = layouts[:1]
    if workload.attention and world == 1 and has_kernels(device, repeat.case.precision):
        layouts = [f"{layout}+{kernel}" for layout in layouts for kernel in KERNELS]
    return [repeat.layout] if repeat.layout in layouts else layouts


def _tried_as_written(order: Order) -> tuple[str, dict[str, float]]:
    """Return the fastest layout before compilation, with the seconds per step of each.

    A compilation takes longer than all trials, and torch caches compiled code by its source, so that another
    kernel of attention would not be compiled.
    """
    try:
        return _tried(order, COMPILED[order.repeat.case.mode])
    except Exception as error:
        if IN_CAPTURE not in getattr(error, "__notes__", ()):
            raise
    return _tried(order, EAGER)


def _tried(order: Order, mode: str) -> tuple[str, dict[str, float]]:
    repeat = replace(order.repeat, case=replace(order.repeat.case, mode=mode))
    try:
        tried = build(order.workload, repeat, order.device, Phases(), order.rank, order.world)
        return tried.layout, tried.trials_s
    finally:
        search_algorithms(False)


def _compared(order: Order, held: list[Prepared], layouts: Sequence[str]) -> Built:
    """Try all layouts in the order A B B A; `held` has the first, to be freed.

    A clock that rises or falls steadily then has the same mean for each layout.
    """
    repeat, device, now = order.repeat, order.device, layouts[0]
    turns_s: dict[str, list[float]] = {layout: [] for layout in layouts}
    for layout in layouts if repeat.brief else (*layouts, *reversed(layouts)):
        if layout != now:
            held.clear()
            search_algorithms(False)
            held.append(_build_steps(order, layout))
            now = layout
            _search(held[0], device, not repeat.brief and not device.is_host)
        turns_s[layout].append(_trial_s(held[0], device, repeat.brief))
    trials_s = {layout: statistics.geometric_mean(turns) for layout, turns in turns_s.items()}
    best = fastest(trials_s)
    if best != now:
        held.clear()
        held.append(_build_steps(order, best))
    return Built(held[0], best, trials_s, *order.counts[-1:])


def fastest(trials_s: dict[str, float]) -> str:
    first, best = next(iter(trials_s)), min(trials_s, key=lambda layout: trials_s[layout])
    return best if trials_s[best] < CLEARLY_FASTER * trials_s[first] else first


def _search(prepared: Prepared, device: Device, is_idle: bool) -> None:
    if is_idle:
        _spin(prepared.step, device)
    search_algorithms()
    if not device.is_host:
        device.clock.time(prepared.step, 1)


def _spin(step: Step, device: Device) -> None:
    """Keep the device busy until its clock is up, for the first layout's sake."""
    ends_s = device.clock.now() + SPIN_S
    while device.clock.now() < ends_s:
        device.clock.time(step, 1)


def _trial_s(prepared: Prepared, device: Device, brief: bool) -> float:
    block, least_s = 1, 0.0 if brief else TRIAL_S
    device.clock.time(prepared.step, 1)
    while (seconds := device.clock.time(prepared.step, block).wall_s) < least_s:
        block *= 2
    blocks = range(0 if brief else TRIALS - 1)
    return min([seconds, *(device.clock.time(prepared.step, block).wall_s for _ in blocks)]) / block


def _build_steps(order: Order, layout: str) -> Prepared:
    built = _build_one(order, layout)
    assert isinstance(built, Prepared)
    return built


def _build_one(order: Order, layout: str) -> Prepared | Job:
    import torch

    device, repeat = order.device, order.repeat
    memory, _, kernel = layout.partition("+")
    ask_first(kernel)
    if memory in order.made:
        return _in_mode(order, order.made[memory])
    order.made.clear()

    def to_device(tensor: torch.Tensor) -> torch.Tensor:
        if device.is_host:
            return tensor
        with order.phases("host_to_device"):
            moved = tensor.to(device.torch_device)
            torch.cuda.synchronize(device.torch_device)
            return moved

    generator = torch.Generator().manual_seed(repeat.seed)
    torch.manual_seed(repeat.seed + order.rank)  # dropout draws from torch's own generator
    precision = repeat.case.precision
    env = Env(
        device.torch_device,
        dtype_of(precision),
        memory,
        generator,
        to_device,
        precision,
        Path(repeat.data) if repeat.data else None,
        order.rank,
        order.world,
        repeat.case.mode,
        order.phases,
    )
    order.made[memory] = order.workload.build(env, **repeat.case.params)
    return _in_mode(order, order.made[memory])


def _in_mode(order: Order, prepared: Prepared | Job) -> Prepared | Job:
    mode, device, phases = order.repeat.case.mode, order.device, order.phases
    if mode == EAGER or isinstance(prepared, Job):
        return prepared
    is_compiled = mode in COMPILED
    with phases("check"), stance("force_eager", is_compiled), counted() as counts:
        prepared.step()  # as written: a graph hands over one operation
    order.counts.append(counts)
    if is_compiled:
        with phases("compile"):
            device.clock.time(prepared.step, 1)
    if mode not in CAPTURED:
        return prepared
    with phases("search"):  # before the capture, which fixes the algorithms
        _search(prepared, device, is_idle=True)
    try:
        with phases("capture"), stance("fail_on_recompile", is_compiled):
            return captured(prepared, device)
    except Exception as error:
        error.add_note(IN_CAPTURE)
        raise


WARM_UP = 3  # steps on a side stream before a capture, as torch's documentation asks for


def check_mode(device: Device, mode: str) -> None:
    """Raise UnsupportedError for a graph on a CPU; disable compilers' caches, which repeats must not share."""
    if mode in CAPTURED and device.is_host:
        raise UnsupportedError(
            f"mode {mode} is a CUDA graph and needs a GPU; on a CPU measure eager or compiled"
        )
    if mode in CAPTURED:  # the steps before the capture would warn of it
        warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
    if mode in COMPILED:
        import torch.compiler.config

        settings: Any = torch.compiler.config
        settings.force_disable_caches = True


@contextmanager
def stance(name: str, is_compiled: bool = True) -> Iterator[None]:
    """Run compiled code eagerly (`force_eager`), or only if it is compiled already (`fail_on_recompile`)."""
    if not is_compiled:  # torch's compiler, which takes a second to import, is not needed
        yield
        return
    import torch

    with torch.compiler.set_stance(name):
        yield


def captured(prepared: Prepared, device: Device) -> Prepared:
    """Capture a step as a CUDA graph, replayed with the same inputs and result.

    `mode="reduce-overhead"` of torch.compile would only log that it runs without a graph if a step changes an
    input in place, as decoding changes its cache (pytorch/pytorch issue 103985); it also copies inputs in
    each step and leaves out the optimizer. A compiled step is captured as in inference servers
    (InternLM/lmdeploy PR 4808, NVIDIA/TensorRT-LLM PR 15603).

    A training follows "whole-network capture" of torch's notes on CUDA graphs: the step drops its gradients
    first, so that the capture allocates them, and the optimizer's state is on the device.
    """
    import torch

    cuda: Any = torch.cuda
    aside = cuda.Stream(device.torch_device)
    aside.wait_stream(cuda.current_stream())
    with cuda.stream(aside):
        for _ in range(WARM_UP):
            prepared.step()
    cuda.current_stream().wait_stream(aside)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        result = prepared.step()

    def step() -> torch.Tensor:
        graph.replay()
        return result

    return replace(prepared, step=step)
