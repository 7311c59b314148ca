"""Building a workload in the memory layout that is fastest on the device at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.harness.engine.device import Device, dtype_of
from workloads.harness.engine.phases import Phases
from workloads.harness.group.ranks import Seat
from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.registry import Workload
from workloads.harness.repeat.runs import Repeat

if TYPE_CHECKING:
    import torch

TRIALS = 3
CLEARLY_FASTER = 0.95  # another layout is taken when it needs less than this share of the time
ALONE = Seat(0, 1)


@dataclass(frozen=True, slots=True)
class Built:
    """A workload, ready, with the layout it is in and the seconds per step of every layout tried."""

    thing: Prepared | Job
    layout: str
    trials_s: dict[str, float]


def build(
    workload: Workload, repeat: Repeat, device: Device, phases: Phases, seat: Seat | None = None
) -> Built:
    """Build the workload, time its cold first call, and keep the fastest of its layouts.

    One layout is in memory at a time, so that the trial needs no more than the measurement. With a `seat`
    the workload is built as one rank's part.
    """
    seat = seat or ALONE
    layout, *others = workload.layouts
    with phases("build"):
        prepared = _build_one(workload, repeat, device, phases, layout, seat)
    if isinstance(prepared, Job):  # it has no step to try layouts with
        return Built(prepared, layout, {})
    with phases("first_call"):
        device.clock.time(prepared.step, 1)
    if not others or repeat.trial:
        return Built(prepared, layout, {})
    count = 1 if repeat.brief else TRIALS
    with phases("layout"):
        trials_s = {layout: _trial_s(prepared, device, count)}
        for layout in others:
            del prepared
            prepared = _build_steps(workload, repeat, device, phases, layout, seat)
            trials_s[layout] = _trial_s(prepared, device, count)
        best = fastest(trials_s)
        if best != layout:
            del prepared
            prepared = _build_steps(workload, repeat, device, phases, best, seat)
    return Built(prepared, best, trials_s)


def fastest(trials_s: dict[str, float]) -> str:
    """The first layout, unless another is clearly faster."""
    first, best = next(iter(trials_s)), min(trials_s, key=lambda layout: trials_s[layout])
    return best if trials_s[best] < CLEARLY_FASTER * trials_s[first] else first


def _trial_s(prepared: Prepared, device: Device, count: int) -> float:
    device.clock.time(prepared.step, 1)
    return min(device.clock.time(prepared.step, 1).wall_s for _ in range(count))


def _build_steps(
    workload: Workload, repeat: Repeat, device: Device, phases: Phases, layout: str, seat: Seat
) -> Prepared:
    built = _build_one(workload, repeat, device, phases, layout, seat)
    assert isinstance(built, Prepared)
    return built


def _build_one(
    workload: Workload, repeat: Repeat, device: Device, phases: Phases, layout: str, seat: Seat
) -> Prepared | Job:
    import torch

    def to_device(tensor: torch.Tensor) -> torch.Tensor:
        if device.is_host:
            return tensor
        with phases("host_to_device"):
            moved = tensor.to(device.torch_device)
            torch.cuda.synchronize(device.torch_device)
            return moved

    generator = torch.Generator().manual_seed(repeat.seed)
    torch.manual_seed(repeat.seed + seat.rank)  # dropout draws from torch's own generator
    precision = repeat.case.precision
    env = Env(
        device.torch_device,
        dtype_of(precision),
        layout,
        generator,
        to_device,
        precision,
        Path(repeat.data) if repeat.data else None,
        seat.rank,
        seat.world,
    )
    return workload.build(env, **repeat.case.params)
