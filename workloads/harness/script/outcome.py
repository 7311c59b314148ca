"""The outcome of a script's run: times, findings, losses, shares of a step."""

from __future__ import annotations

import math
import resource
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from workloads.harness.engine.failures import finding
from workloads.harness.engine.sampling.mean import MeanBounds, batch_means, mean_bounds
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.sampling.stop import is_precise
from workloads.harness.engine.sampling.summary import summarise, thinned
from workloads.harness.records.case import Case
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Verdict
from workloads.harness.records.timing import Timing
from workloads.harness.records.verdict import Finding
from workloads.harness.script.observations import Observations
from workloads.harness.script.sampling import MOST_RARE, StepTimes
from workloads.harness.script.timers import uses_gpu

CHILDREN_S = 0.5  # CPU seconds of child processes: a child that only prints its version takes less
FEWEST = 2  # steps after the first that a time needs
Span = tuple[float, float]
_EXCHANGE = ("nccl", "gloo:", "c10d::", "allreduce", "all_reduce")
_COPY = ("memcpy", "memset")
_LOADER = "enumerate(DataLoader)"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a script: its `error`, and `after`, a finding."""

    ended: str = "finished"
    code: int | None = None
    error: BaseException | None = None
    after: str = ""


def timings(times: StepTimes, observed: Observations, rules: Rules) -> tuple[Timing | None, Timing | None]:
    """Return a step's times by the host's clock, and by the device's."""
    if times.sampled is None:
        return _early_timing(times, observed, rules), None
    sampled, warm = times.sampled, times.warm
    assert warm is not None
    blocks = times.blocks[-len(sampled.samples_s) * times.count :]
    wall = _timing([block.wall_s for block in blocks], times, rules)
    wall = replace(wall, warmup_s=thinned((*warm.samples_s, *sampled.early_s)))
    on_device = [block.device_s for block in blocks if block.device_s is not None]
    return wall, _timing(on_device, times, rules) if len(on_device) == len(blocks) else None


def _timing(blocks_s: Sequence[float], times: StepTimes, rules: Rules) -> Timing:
    """Return a step's times by one clock, with the bounds of the stored mean.

    Samples with rare work, such as an evaluation, count as usual ones; the job's time adds that work. If more
    samples hold such work than rare work does, as with a loader that stalls every few batches, it belongs to
    the step.
    """
    sampled, warm = times.sampled, times.warm
    assert sampled is not None and warm is not None
    starts = range(0, len(blocks_s), times.count)
    samples_s = tuple(statistics.median(blocks_s[start : start + times.count]) for start in starts)
    steady, precise, needed_s = warm.steady and not sampled.drift, sampled.precise, sampled.needed_s
    values, bounds = batch_means(blocks_s, times.count), None
    ruled, rare = _ruled(times)
    if len(rare) > MOST_RARE * len(samples_s):
        rules = rules.for_step(statistics.median(samples_s))
        bounds = mean_bounds(values, size=1 if rules.is_long else None)
        if precise and not is_precise(values, rules):
            precise, needed_s = False, _needed_s(bounds, math.fsum(blocks_s) * times.block, rules)
    elif list(blocks_s) == ruled:
        values, bounds = times.means_s[-len(samples_s) :], sampled.mean
    else:
        usual_s = statistics.median(value for place, value in enumerate(values) if place not in rare)
        values = [usual_s if place in rare else value for place, value in enumerate(values)]
    bounds = bounds or mean_bounds(values)
    timing = summarise(samples_s, times.block, steady, precise, blocks_s, bounds)
    mean_s = statistics.fmean(values)
    return replace(timing, mean_s=mean_s, drift=sampled.drift, to_come=sampled.to_come, needed_s=needed_s)


def _needed_s(bounds: MeanBounds, spent_s: float, rules: Rules) -> float:
    """Predict the seconds for a precise mean: the error falls with their root."""
    if bounds.interval is None:
        return spent_s * rules.batches / max(bounds.batches, 1)
    half = (bounds.interval.high - bounds.interval.low) / 2 / bounds.interval.value
    return spent_s * max(rules.batches / bounds.batches, (half / rules.half_width) ** 2)


def _ruled(times: StepTimes) -> tuple[list[float], set[int]]:
    """Return the blocks, in seconds per step, that the stop rule saw, and the rare samples."""
    assert times.sampled is not None
    count = len(times.sampled.samples_s)
    ruled = [block.step_s for block in times.blocks[-count * times.count :]]
    pairs = zip(batch_means(ruled, times.count), times.means_s[-count:], strict=True)
    return ruled, {place for place, (mean_s, usual_s) in enumerate(pairs) if mean_s > usual_s}


def _early_timing(times: StepTimes, observed: Observations, rules: Rules) -> Timing | None:
    steps_s = [end - begin for begin, end in pairwise(observed.ends_s)]
    if len(steps_s) < FEWEST:
        return None
    first = times.warm_steps - 1 if times.warm_steps else len(steps_s) // 2
    kept = steps_s[min(first, len(steps_s) - FEWEST) :]
    precise = len(kept) >= rules.min_samples and is_precise(kept, rules)
    timing = summarise(kept, 1, bool(times.warm and times.warm.steady), precise)
    return replace(timing, warmup_s=thinned(steps_s[: -len(kept)]))


def findings_of(
    ending: Ending,
    observed: Observations,
    times: StepTimes,
    case: Case,
    follows: bool,
    refusal: str = "",
) -> list[Finding]:
    """Return the findings about a script's end, the gravest first; `refusal`: why its step is unknown."""
    steps = len(observed.ends_s)
    if ending.error is not None:
        return [_of_error(ending.error, case, observed.position)]
    if ending.code:
        return [(Verdict.CRASHED, f"the script ended with code {ending.code} {observed.position}")]
    if ending.after:
        return [(Verdict.TIMEOUT, ending.after)]
    if follows:
        return []
    if refusal:
        return [(Verdict.UNSUPPORTED, refusal)]
    if steps <= FEWEST:
        return [(Verdict.UNSUPPORTED, _nothing(observed, steps))]
    if times.sampled is None:
        text = f"the script ended after {steps} steps, before its measurement was complete"
        return [(Verdict.IMPRECISE, text)]
    return []


def _of_error(error: BaseException, case: Case, position: str) -> Finding:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            Verdict.CRASHED,
            f"the script needs the package {error.name}, which is not installed here: "
            "install it, or name the file that lists its packages",
        )
    if not isinstance(error, Exception):
        return Verdict.CRASHED, f"{type(error).__name__} ended the script {position}"
    verdict, text = finding(error, case)
    if verdict is Verdict.CRASHED:
        text = f"{text.replace('the workload raised', 'the script raised')} {position}"
    return verdict, printable(text)


def _nothing(observed: Observations, steps: int) -> str:
    marked = "import workloads.mark and call `workloads.mark.step()` at the end of each step"
    if not observed.imported:
        return "the script ended without importing torch, so none of its steps can be recognised"
    if steps:
        return f"the script ended after {steps} step{'s' * (steps > 1)}, too few to measure: let it take more"
    if observed.backwards:
        calls = f"{observed.backwards} backward calls but no step of a torch.optim.Optimizer"
        return f"{calls} were seen: state --step-of backward if each of them is a step, or {marked}"
    children_s = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    if children_s > CHILDREN_S:
        return (
            f"no step was seen in this process, but processes that it started took {children_s:.3g} s: "
            "train in this process, and start its ranks with --processes or torchrun"
        )
    return f"neither a step of an optimizer nor a call of a model was seen in this process: {marked}"


def misplaced(device: str, observed: Observations) -> list[Finding]:
    if not observed.ends_s or uses_gpu() == (device == "cuda"):
        return []
    used = "on a GPU" if device == "cpu" else "on the CPU"
    text = f"the script computed {used}, but --device is {device}: set the same device in both"
    return [(Verdict.UNSUPPORTED, text)]


def losses_of(observed: Observations) -> tuple[tuple[float, ...], list[Finding]]:
    """Return the losses before one that is not finite, and a finding about that."""
    losses = [float(loss) for loss in observed.losses]
    for place, loss in enumerate(losses):
        if not math.isfinite(loss):
            return tuple(losses[:place]), [(Verdict.WRONG, f"the loss of step {place + 1} is {loss}")]
    return tuple(losses), []


def shares_of(profiler: Any, loader_share: float | None) -> dict[str, float]:
    """Return the parts of a profiled step, which add up to 1.

    Each moment counts once. On a GPU it is computation, else communication, else copying; an idle GPU waits
    for the loader (as long as the script did), else for launches. On a CPU it is loading, else an operator,
    else communication, else other work, such as Python.
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
        parts = _split(_of_gpu(kernels), ("compute", "communication", "copy"), whole)
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


def _of_gpu(kernels: Iterable[Any]) -> dict[str, list[Span]]:
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
        elif "::" in name or name.startswith("inductor"):
            part = "compute"
        else:
            continue
        found.setdefault(part, []).append((event.time_range.start, event.time_range.end))
    return found


def _split(spans: dict[str, list[Span]], order: Sequence[str], whole: float) -> dict[str, float]:
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
