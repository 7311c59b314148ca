"""`roof`: measure this machine's best rates in minutes, cache and show them."""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from workloads.command.output import say
from workloads.harness.engine.cache import TIMES, last_level_bytes
from workloads.harness.engine.device import ONLY_ON_GPUS
from workloads.harness.probes.cpu import affinity, cores
from workloads.harness.probes.device_here import device_here
from workloads.harness.probes.memory import available_bytes
from workloads.harness.probes.roof import RATES, facts_here, keep_roof, kept_roof, roof_path
from workloads.harness.records.case import EAGER, FP8, PRECISIONS
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import seconds, table
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.forks import ForkServers
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.roofline.products import SEARCH_S
from workloads.harness.roofline.roof import (
    ALL_REDUCE,
    COPY,
    LATENCY,
    LAUNCH,
    PRODUCT,
    READ,
    UNITS,
    RoofRate,
    best,
    measured_rates,
    rates_from,
    rates_kept,
)
from workloads.harness.roofline.roofline import percent, si

SIDE = {"cpu": 4096, "cuda": 16_384}
REPEAT_S = 12.0  # a quick repeat, its process included
GPU_CACHE_BYTES = 2**27  # above the largest L2, of 126 MB
TIMES_CACHE = (TIMES, 4 * TIMES)  # sizes in last-level caches; the faster one is measured
KIBS = (1024, 16_384, 65_536)
HEAD = ["limit", "terms", "roof", "± 95 %", "size", "verdict", "measured at"]
TITLES = {PRODUCT: "matrix product", COPY: "copying memory", READ: "reading memory", LAUNCH: "launch"}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit to measure at the best of several sizes; `rates` are as in `RoofRate.name`."""

    rates: tuple[tuple[str, str, str, int], ...]
    workload: str
    sizes: tuple[dict[str, int], ...]

    @property
    def estimate_s(self) -> float:
        searching_s = SEARCH_S if self.workload == "roof" else 0.0
        return searching_s + REPEAT_S * (1 + (len(self.sizes) > 1) * len(self.sizes) / 2)


def roof(options: argparse.Namespace) -> int:
    threads, options.device = options.threads or cores(), options.device or device_here()
    path = roof_path(facts_here(options.device), options.device, threads)
    if options.again:
        keep_roof(path, {})
    repeat = Repeat(
        "roof", "here", find("roof").case({"side": 1}), device=options.device, threads=threads, quick=True
    )
    kept = best(rates_from(kept_roof(path)[RATES]))
    wanted = list(limits(options.device))
    todo = [item for item in wanted if set(item.rates) - {rate.name for rate in kept}]
    reasons = []
    if options.device == "cpu":
        reasons.append(f"{', '.join(ONLY_ON_GPUS)} and graphs are of NVIDIA GPUs: not measured on a CPU")
    if _processes(options.device) < 2:
        reasons.append(f"{ALL_REDUCE}: a single process has no other to communicate with")
    if todo:
        ends_s = time.monotonic() + 60 * options.minutes
        with whole_box(say) as lock, ForkServers(say) as forks:
            for item in todo:
                if time.monotonic() + item.estimate_s > ends_s:
                    reasons.append(f"{_names(item)}: no time was left; run it again, or with more --minutes")
                    continue
                record = _measured(item, repeat, lock, forks)
                rates = [rate for rate in measured_rates([record]) if rate.name in item.rates]
                if not rates:
                    reasons.append(f"{_names(item)}: {record.verdict.value}: {'; '.join(record.reasons)}")
                kept = best((*kept, *rates))
                keep_roof(path, kept_roof(path) | rates_kept(kept))
    if options.json:
        print(json.dumps({"path": str(path), **rates_kept(kept), "reasons": reasons}))
    else:
        print("\n".join([table([HEAD, *map(_row, kept)]), *reasons, f"stored in {path}"]))
    return 0 if {name for item in wanted for name in item.rates} <= {rate.name for rate in kept} else 1


def limits(device: str) -> Iterator[Limit]:
    precisions = (*PRECISIONS, FP8) if device == "cuda" else [p for p in PRECISIONS if p not in ONLY_ON_GPUS]
    for precision in precisions:
        yield _product(device, precision, EAGER)
    size = (last_level_bytes()[0] if device == "cpu" else None) or GPU_CACHE_BYTES
    room = (available_bytes() or 2**32) / 8
    mibs = [max(int(times * size) >> 20, 16) for times in TIMES_CACHE]
    sizes = tuple({"mib": mib} for mib in mibs if mib << 20 <= room) or ({"mib": mibs[0]},)
    yield Limit(((READ, "fp32", EAGER, 1),), "memory_read", sizes)
    yield Limit(((COPY, "fp32", EAGER, 1),), "memory_bandwidth", sizes)
    yield Limit(((LAUNCH, "fp32", EAGER, 1),), "kernel_launch", ({"kernels": 1000},))
    if (processes := _processes(device)) > 1:
        names = ((LATENCY, "fp32", EAGER, processes),)
        yield Limit(names, "all_reduce", ({"kib": 1, "processes": processes},))
        names = ((ALL_REDUCE, "fp32", EAGER, processes),)
        yield Limit(names, "all_reduce", tuple({"kib": kib, "processes": processes} for kib in KIBS))
    for mode in find("roof").modes if device == "cuda" else ("compiled",):
        for precision in precisions if mode != EAGER else ():
            yield _product(device, precision, mode)


def _product(device: str, precision: str, mode: str) -> Limit:
    return Limit(((PRODUCT, precision, mode, 1),), "roof", ({"side": SIDE[device]},))


def _processes(device: str) -> int:
    if device == "cpu":
        return min(len(affinity()), 2)
    import torch

    return torch.cuda.device_count()


def _measured(item: Limit, repeat: Repeat, lock: int, forks: ForkServers) -> Record:
    """Measure a limit anew at its best size: the best of brief samples is biased."""
    (_, precision, mode, processes), *_ = item.rates
    if processes > 1:
        repeat = replace(repeat, threads=1)
    workload = find(item.workload)

    def run(size: dict[str, int], brief: bool) -> Record:
        ordered = replace(repeat, case=workload.case(size, precision, mode), brief=brief)
        say(f"{ordered.case.id}{' briefly' if brief else ''}")
        return run_repeat(ordered, lock, lambda text: None, start=forks.start)

    best_rate, best_size = 0.0, item.sizes[0]
    for size in item.sizes if len(item.sizes) > 1 else ():
        record = run(size, True)
        if record.work and record.compute_s and (rate := record.work.units / record.compute_s) > best_rate:
            best_rate, best_size = rate, size
    return run(best_size, False)


def _names(item: Limit) -> str:
    return " and ".join(f"{kind} {_terms(precision, mode)}" for kind, precision, mode, _ in item.rates)


def _terms(precision: str, mode: str) -> str:
    return precision if mode == EAGER else f"{precision} {mode}"


def _row(rate: RoofRate) -> list[str]:
    terms = _terms(rate.precision, rate.mode) if rate.kind == PRODUCT else ""
    terms = terms or (f"{rate.processes} processes" if rate.processes > 1 else "")
    width = None if rate.low is None or rate.high is None else (rate.high - rate.low) / 2 / rate.value
    value = seconds(rate.value) if UNITS[rate.kind] == "s" else f"{si(rate.value)}{UNITS[rate.kind]}"
    width_text, title = "–" if width is None else percent(width), TITLES.get(rate.kind, rate.kind)
    return [title, terms, value, width_text, rate.size, rate.verdict, rate.measured_at]
