"""The profile pass: further steps under torch's profiler, after the timed ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from workloads.harness.engine.clock import Step
from workloads.harness.engine.device import Device
from workloads.harness.engine.member import GroupMember
from workloads.harness.records.parts import Operator, Profile

STEPS = 3
ROWS = 10
LOG_LEVEL = "KINETO_LOG_LEVEL"  # of the profiler's library, which reads it at its start
SILENT = "6"


def profiled(step: Step, device: Device, steps: int = STEPS, rows: int = ROWS) -> Profile:
    from torch.profiler import ProfilerActivity, profile

    on_cpu = device.is_host
    activities = [ProfilerActivity.CPU, *([] if on_cpu else [ProfilerActivity.CUDA])]
    device.clock.time(step, 1)
    with quiet(), profile(activities=activities, record_shapes=True, profile_memory=True) as profiler:
        reading = device.clock.time(step, steps)
    key = "self_cpu_time_total" if on_cpu else "self_device_time_total"
    ranked = _ranked(profiler.key_averages(group_by_input_shape=True), key)
    operators = tuple(map(_operator, ranked[:rows]))
    if on_cpu:
        return Profile(steps, reading.wall_s, key, operators)
    kernels = _kernels(profiler.events() or ())
    return Profile(steps, reading.wall_s, key, operators, len(kernels), _covered_s(kernels))


@contextmanager
def quiet() -> Iterator[None]:
    before = os.environ.get(LOG_LEVEL)
    os.environ[LOG_LEVEL] = before or SILENT
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Profiler clears events", category=UserWarning)
            yield
    finally:
        if before is None:
            os.environ.pop(LOG_LEVEL, None)


def busy_s(step: Step, device: Device, member: GroupMember | None = None) -> float | None:
    """Return the seconds per step in which the device (of a group, the slowest) ran a kernel.

    None if the profiler saw no kernel, for example without permission to use CUPTI.
    """
    found_s = None
    with suppress(Exception):  # the timed steps remain valid
        profile = profiled(step, device)
        found_s = profile.busy_s / profile.steps if profile.busy_s else None
    return member.slowest(found_s) if member else found_s


def _ranked(averages: Iterable[Any], key: str) -> list[Any]:
    """Sort operators by `key`, largest first; without kernels, which their operators include."""
    operators = [row for row in averages if _is_of(row, "CPU")]
    return sorted(operators, key=lambda row: -getattr(row, key))


def _kernels(events: Iterable[Any]) -> list[Any]:
    return [event for event in events if _is_of(event, "CUDA") and not event.is_user_annotation]


def _is_of(event: Any, device: str) -> bool:
    return str(event.device_type).endswith(device)


def _operator(row: Any) -> Operator:
    return Operator(
        name=str(row.key),
        calls=int(row.count),
        self_cpu_s=row.self_cpu_time_total / 1e6,
        cpu_s=row.cpu_time_total / 1e6,
        self_device_s=row.self_device_time_total / 1e6,
        device_s=row.device_time_total / 1e6,
        self_memory_bytes=int(row.self_cpu_memory_usage or row.self_device_memory_usage),
        shapes=str(row.input_shapes)[:200],
    )


def _covered_s(kernels: list[Any]) -> float:
    covered = end = 0.0
    for start, stop in sorted((k.time_range.start, k.time_range.end) for k in kernels):
        covered += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return covered / 1e6
