"""Building a workload in the memory layout that is fastest on the device at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.harness.device import Device, dtype_of
from workloads.harness.phases import Phases
from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import Workload
from workloads.harness.runs import Repeat

if TYPE_CHECKING:
    import torch

TRIALS = 3
CLEARLY_FASTER = 0.95  # another layout is taken when it needs less than this share of the time


@dataclass(frozen=True, slots=True)
class Built:
    """A workload, ready, with the layout it is in and the seconds per step of every layout tried."""

    prepared: Prepared
    layout: str
    trials_s: dict[str, float]


def build(workload: Workload, repeat: Repeat, device: Device, phases: Phases) -> Built:
    """Build the workload, time its cold first call, and keep the fastest of its layouts.

    One layout is in memory at a time, so that the trial needs no more than the measurement.
    """
    layout, *others = workload.layouts
    with phases("build"):
        prepared = _build_one(workload, repeat, device, phases, layout)
    with phases("first_call"):
        device.clock.time(prepared.step, 1)
    if not others:
        return Built(prepared, layout, {})
    with phases("layout"):
        trials_s = {layout: _trial_s(prepared, device)}
        for layout in others:
            del prepared
            prepared = _build_one(workload, repeat, device, phases, layout)
            trials_s[layout] = _trial_s(prepared, device)
        best = fastest(trials_s)
        if best != layout:
            del prepared
            prepared = _build_one(workload, repeat, device, phases, best)
    return Built(prepared, best, trials_s)


def fastest(trials_s: dict[str, float]) -> str:
    """The first layout, unless another is clearly faster."""
    first, best = next(iter(trials_s)), min(trials_s, key=lambda layout: trials_s[layout])
    return best if trials_s[best] < CLEARLY_FASTER * trials_s[first] else first


def _trial_s(prepared: Prepared, device: Device) -> float:
    device.clock.time(prepared.step, 1)
    return min(device.clock.time(prepared.step, 1).wall_s for _ in range(TRIALS))


def _build_one(workload: Workload, repeat: Repeat, device: Device, phases: Phases, layout: str) -> Prepared:
    import torch

    def to_device(tensor: torch.Tensor) -> torch.Tensor:
        if device.is_host:
            return tensor
        with phases("host_to_device"):
            moved = tensor.to(device.torch_device)
            torch.cuda.synchronize(device.torch_device)
            return moved

    generator = torch.Generator().manual_seed(repeat.seed)
    env = Env(device.torch_device, dtype_of(repeat.case.precision), layout, generator, to_device)
    return workload.build(env, **repeat.case.params)
