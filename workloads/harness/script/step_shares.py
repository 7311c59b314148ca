"""The parts of a step: who keeps it waiting, by a few steps under torch's profiler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Span = tuple[float, float]
_EXCHANGE = ("nccl", "gloo:", "c10d::", "allreduce", "all_reduce")
_COPY = ("memcpy", "memset")
_LOADER = "enumerate(DataLoader)"


def shares_of(profiler: Any, loader_share: float | None) -> dict[str, float]:
    """Return the parts of a step, which add up to 1.

    Each moment counts once. On a GPU it belongs to what computes, else to what communicates, else to what
    copies; where the GPU idles, to the loader as far as that was waited for, and else to launching. On a CPU
    it belongs to the loader, else to operators, else to communication, else to other things: Python.
    """
    events = list(profiler.events() or ())
    if not events:
        return {}
    begin = min(event.time_range.start for event in events)
    end = max(event.time_range.end for event in events)
    whole = max(end - begin, 1e-9)
    kernels = [
        event for event in events if str(event.device_type).endswith("CUDA") and not event.is_user_annotation
    ]
    loader = loader_share or 0.0
    if kernels:
        parts = _split(_named(kernels), ("compute", "communication", "copy"), whole)
        idle = 1.0 - sum(parts.values())
        parts["loader"] = min(loader, idle)
        parts["launch"] = idle - parts["loader"]
    else:
        split = _split(_of_host(events), ("loader", "compute", "communication"), whole)
        apart = split.pop("loader", 0.0)
        rest = max(1.0 - apart, 1e-9)
        parts = {name: (1 - loader) * share / rest for name, share in split.items()}
        parts["loader"] = loader
        parts["other"] = 1.0 - sum(parts.values())
    return {name: max(share, 0.0) for name, share in parts.items() if share > 0}


def _named(kernels: Iterable[Any]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for kernel in kernels:
        name = kernel.name.lower()
        part = "communication" if "nccl" in name else "copy" if name.startswith(_COPY) else "compute"
        found.setdefault(part, []).append((kernel.time_range.start, kernel.time_range.end))
    return found


def _of_host(events: Iterable[Any]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for event in events:
        name = event.name
        if name.startswith(_LOADER):
            part = "loader"
        elif any(word in name.lower() for word in _EXCHANGE):
            part = "communication"
        elif (
            name.startswith(("aten::", "torchvision::", "quantized::", "mkldnn::", "inductor"))
            or "::" in name
        ):
            part = "compute"
        else:
            continue
        found.setdefault(part, []).append((event.time_range.start, event.time_range.end))
    return found


def _split(spans: dict[str, list[Span]], order: Sequence[str], whole: float) -> dict[str, float]:
    """Return the share of each part, in which a moment belongs to the first of `order` that covers it."""
    shares, taken = {}, list[Span]()
    covered = 0.0
    for part in order:
        taken = _union([*taken, *spans.get(part, ())])
        total = sum(end - begin for begin, end in taken)
        shares[part] = (total - covered) / whole
        covered = total
    return shares


def _union(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
