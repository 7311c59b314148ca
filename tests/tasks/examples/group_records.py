"""Handmade records of groups of processes and whole jobs."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.tasks.examples.records import ENVIRONMENT, record, timing
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Group, MemoryAt, Profile, Rank, Training
from workloads.harness.records.record import Memory, Record, Timing, Work

GIB = 2**30
BOX = "gpu-box"
GPUS = ENVIRONMENT | {"gpus": [{"name": "Example GPU", "memory_total_bytes": 24 * GIB}]}


def step_of(batch: int, processes: int = 1) -> Work:
    return Work(batch, "images", 6e9 * batch, 1e6 * batch, parameters=35_746_307)


def alone(seconds: float, batch: int = 32, repeat: int = 0, **changes: Any) -> Record:
    fields = {"work": step_of(batch), "device": "cuda", "environment": GPUS, "memory": Memory(GIB, 5 * GIB)}
    return record(seconds, Case.of("ddpm", {"batch": batch}), BOX, repeat, **(fields | changes))


def group_of(count: int, seconds: float, kind: str, slowest: int = 0, device: str = "cuda") -> Group:
    """Return `count` ranks, one with `seconds` a step, the others 2 % faster."""
    ranks = tuple(
        Rank(i, f"cuda:{i}", seconds * (1 if i == slowest else 0.98), GIB, (5 + i) * GIB, 6 * GIB)
        for i in range(count)
    )
    if device == "cpu":
        ranks = tuple(replace(r, device="cpu", device_allocated_bytes=None) for r in ranks)
    return Group("nccl" if device == "cuda" else "gloo", kind, ranks, 0.1 if count > 1 else None, 0.02)


def grouped(
    seconds: float, count: int, kind: str = "weak", batch: int = 32, repeat: int = 0, **changes: Any
) -> Record:
    """Return `count` processes with DDP, with a batch for each (weak) or for all (strong)."""
    fields: dict[str, Any] = {"device": "cuda", "environment": GPUS}
    fields |= {"work": step_of(batch * count if kind == "weak" else batch)}
    fields |= {"group": group_of(count, seconds, kind, device=changes.get("device", "cuda"))}
    case = Case.of(f"ddpm_{kind}", {"batch": batch, "processes": count})
    return record(seconds, case, BOX, repeat, **(fields | changes))


def whole(seconds: float) -> Timing:
    return Timing((seconds,), 1, seconds, None, None, seconds, seconds, 0, 0, True, True, (), True)


def memory_at(count: int, steps: int = 100) -> tuple[MemoryAt, ...]:
    return tuple(
        MemoryAt(step, rank, (5 + rank) * GIB, 6 * GIB, (5 + rank) * GIB + step)
        for step in range(0, steps + 1, 50)
        for rank in range(count)
    )


def job(seconds: float, count: int, images: int, repeat: int = 0, **changes: Any) -> Record:
    steps = images // (32 * count)
    losses = tuple(1.0 / (1 + step) for step in range(steps))
    slow = tuple(seconds / steps * (0.5 if step else 1.5) for step in range(steps))  # the mean
    training = Training(losses[0], losses[-1], losses, slow, "loss", losses[-1], 0.5, memory_at(count, steps))
    fields: dict[str, Any] = {
        "wall": whole(seconds),
        "phases_s": {"process_start": 0.1, "import": 2.0, "context": 0.5, "build": 1.0, "samples": seconds},
        "wall_s": seconds + 3.61,
        "work": Work(images, "images", 6e9 * images, 1e6 * images, parameters=35_746_307),
        "transfer": None,
        "device": "cuda",
        "environment": GPUS,
        "training": training,
        "group": group_of(count, seconds, "weak"),
    }
    case = Case.of("ddpm_job", {"images": 50_000, "batch": 32, "processes": count})
    return record(seconds, case, BOX, repeat, **(fields | changes))


def epoch(repeats: int = 3) -> list[Record]:
    """Return the published comparison, with different drops of the last batch: 6.45 times on 8 devices."""
    noise = random.Random(4)
    times = {1: (1290.0, 49_984), 8: (200.0, 49_920)}
    return [
        job(seconds * (1 + 0.002 * noise.random()), count, images, repeat)
        for count, (seconds, images) in times.items()
        for repeat in range(repeats)
    ]


def repeated(make: Any, seconds: Sequence[float], *args: Any, **named: Any) -> list[Record]:
    return [make(s, *args, repeat=i, **named) for i, s in enumerate(seconds)]


def steps() -> list[Record]:
    """Return steady steps: without DDP, with DDP of one, and weak and strong on 2, 4 and 8 devices."""
    made = [*repeated(alone, (0.1000, 0.1001, 0.1002)), *repeated(alone, (0.8, 0.801, 0.802), batch=256)]
    for count, weak_s, strong_s in ((1, 0.102, 0.81), (2, 0.105, 0.43), (4, 0.11, 0.23), (8, 0.124, 0.124)):
        made += repeated(grouped, [weak_s * f for f in (1, 1.001, 1.002)], count)
        made += repeated(grouped, [strong_s * f for f in (1, 1.001, 1.002)], count, "strong", 256)
    return made


def profiled(made: Record, busy_s: float) -> Record:
    """Return a record with a profile of 10 steps, the device busy for `busy_s` seconds."""
    profile = Profile(10, 2 * busy_s, "cuda_time", (), 100, busy_s)
    return replace(made, device_time=made.device_time or made.wall, profile=profile)


__all__ = ["alone", "epoch", "group_of", "grouped", "job", "profiled", "repeated", "steps", "timing"]
