"""One process compared with N, with the keys of the DDPM comparison of GPUs.

`single_gpu`, `multi_gpu` and `speedup_analysis` are top-level keys of `benchmark_results.json` for the first family of
whole jobs of several processes; `gpu_comparisons` has all families. Their meaning:

    single_gpu, multi_gpu    the repeat with the median time of 1 and of the most processes; null if there is
                             none, with the reason in `missing`
    throughput_samples_per_second   training samples of all ranks / time of the slowest rank
    avg_batch_time_seconds   time of the job / its steps
    gpu_<i>                  the device of rank i, read by rank i; process i if `device_kind` is a CPU
    *_gb                     bytes / 2**30; null if unknown, never 0
    speedup_analysis         from all ok repeats; efficiency_per_gpu = throughput_speedup / processes
"""

import re
import statistics
from collections.abc import Sequence
from typing import Any

from tasks.findings.scaling_families import base_words
from tasks.report.scaling_rows import median_repeat
from tasks.results.comparison import Comparison
from tasks.results.model import Family, ScalingLevel
from tasks.results.values import Estimate, Ratio
from tasks.results.wording import verdict_text
from workloads.harness.records.parts import MemoryAt
from workloads.harness.records.record import Record

GB = 2**30


def epoch_keys(records: Sequence[Record], comparison: Comparison) -> dict[str, Any]:
    """Return none without a whole job in a group."""
    whole = [family for family in comparison.families if family.whole]
    if not whole:
        return {}
    matches = []
    for family in whole:
        cells = {level.cell for level in family.levels}
        matches.append(_comparison([record for record in records if record.cell in cells], family))
    first = {name: matches[0][name] for name in ("single_gpu", "multi_gpu", "speedup_analysis", "missing")}
    return first | {"gpu_comparisons": matches}


def _comparison(records: Sequence[Record], family: Family) -> dict[str, Any]:
    single, multi = sides(family)
    missing: dict[str, str] = {}
    return {
        "hardware": family.hardware,
        "case": family.title,
        "base": base_words(family),
        "single_gpu": _side(records, single, "one process", "single_gpu", missing),
        "multi_gpu": _side(records, multi, "more than one process", "multi_gpu", missing),
        "speedup_analysis": _analysis(family, multi, missing),
        "missing": missing,
    }


def sides(family: Family) -> tuple[ScalingLevel | None, ScalingLevel | None]:
    """Return one process (without DDP if measured) and the most."""
    single = family.base or next((level for level in family.levels if level.processes == 1), None)
    several = [level for level in family.levels if level.processes > 1]
    ok = [level for level in several if level.ok_repeats]
    return single, max(ok or several, key=lambda level: level.processes, default=None)


def _side(
    records: Sequence[Record], level: ScalingLevel | None, who: str, name: str, missing: dict[str, str]
) -> dict[str, Any] | None:
    record = median_repeat(records, level)
    if level is None or record is None or record.wall is None:
        why = [verdict_text(level.verdict), *level.reasons[:1]] if level else ["not in the run"]
        missing[name] = f"no ok record of {who}: {': '.join(why)}"
        return None
    training, seconds = record.training, record.wall.median_s
    losses = training.losses if training else ()
    units = float(record.work.units) if record.work else None
    return {
        "total_time_seconds": seconds,
        "total_time_minutes": seconds / 60,
        "avg_batch_time_seconds": seconds / len(losses) if losses else None,
        "throughput_samples_per_second": units / seconds if units else None,
        "total_samples": int(units) if units is not None and units.is_integer() else units,
        "total_steps": len(losses) or None,
        "avg_loss": statistics.fmean(losses) if losses else None,
        "loss_std": statistics.pstdev(losses) if losses else None,
        "gpu_count": level.processes,
        "device_ids": _device_ids(record, level.processes),
        "device_kind": record.device,
        "memory_history": memory_history(training.memory if training else (), level.processes),
        "repeat": record.repeat,
        "ok_repeats": level.ok_repeats,
    }


def memory_history(memory: Sequence[MemoryAt], processes: int) -> list[dict[str, Any]]:
    """Return an entry per rank, null if unknown."""
    steps: dict[int, dict[int, MemoryAt]] = {}
    for at in memory:
        if at.allocated_bytes > 0:
            steps.setdefault(at.step, {})[at.rank] = at
    history = []
    for step, ranks in sorted(steps.items()):
        is_whole = all(rank in ranks for rank in range(processes))
        total = sum(at.allocated_bytes for at in ranks.values()) / GB if is_whole else None
        held: dict[str, Any] = {f"gpu_{rank}": _held(ranks.get(rank)) for rank in range(processes)}
        history.append(held | {"total_memory_gb": total, "step": step})
    return history


def _held(at: MemoryAt | None) -> dict[str, float] | None:
    if at is None:
        return None
    return {
        "memory_allocated_gb": at.allocated_bytes / GB,
        "memory_reserved_gb": at.reserved_bytes / GB,
        "max_memory_gb": at.peak_bytes / GB,
    }


def _device_ids(record: Record, processes: int) -> list[int]:
    names = [rank.device for rank in record.group.ranks] if record.group else []
    ids = [int(match[1]) for name in names if (match := re.fullmatch(r"cuda:(\d+)", name))]
    return ids if len(ids) == processes else list(range(processes))


def _analysis(family: Family, multi: ScalingLevel | None, missing: dict[str, str]) -> dict[str, Any] | None:
    base = family.base
    if base is None or multi is None or multi.over_base is None or not base.step_s or not multi.step_s:
        missing["speedup_analysis"] = "one side has no ok record"
        return None
    if multi.efficiency is None or multi.impossible:
        missing["efficiency_per_gpu"] = multi.impossible or multi.refused or "not known"
    used = None if multi.impossible else multi.efficiency
    return {
        "time_speedup": base.step_s.value / multi.step_s.value,
        "throughput_speedup": multi.over_base.estimate.value,
        "efficiency_per_gpu": used.value if used else None,
        "throughput_speedup_interval": _interval(multi.over_base),
        "efficiency_interval": _interval(used),
        "band": multi.band,
        "scaling": family.scaling,
        "serial_fraction": multi.serial_fraction,
        "gpu_count": multi.processes,
    }


def _interval(of: Ratio | Estimate | None) -> list[float] | None:
    estimate = of.estimate if isinstance(of, Ratio) else of
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return [estimate.low, estimate.high]
