"""The load test's results: its JSON, from records, and its summary for a terminal."""

import math
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.records.text import table
from workloads.loadtest.run import KINDS, LoadTest, Run, successful
from workloads.loadtest.texts import DEFINITIONS, description, size_class

MIB = 2**20
SLACK_S = 0.1  # the sample that is asked for at the end of a window comes this soon after it
STATS = {  # key of the results: column of the monitor, what one unit of the key is
    "cpu_usage_stats": ("host_cpu_percent", 1.0),
    "process_cpu_stats": ("cpu_percent", 1.0),
    "memory_usage_stats": ("host_memory_used_bytes", MIB),
    "process_memory_stats": ("rss_bytes", MIB),
    "gpu_utilization_stats": ("gpu_utilisation_share", 0.01),
    "gpu_memory_stats": ("gpu_memory_used_bytes", MIB),
    "gpu_temperature_stats": ("gpu_temperature_c", 1.0),
}


def document(run: Run) -> dict[str, Any]:
    """Return the load test's JSON; `definitions` says what each key means."""
    results = [result(test, job, alone, run.sample_rate_s) for test, job, alone in run.measured()]
    system, now = run.system, datetime.now(UTC).isoformat(timespec="seconds")
    passed, total = sum(r["success"] for r in results), len(run.tests) * run.repeats
    memory = system.memory_total_bytes
    return {
        "system_info": {
            "hostname": system.hostname,
            "cpu_count": system.cpu_count,
            "memory_total_gb": memory / 2**30 if memory else None,
            "gpu_count": len(system.gpu_names),
            "gpu_names": list(system.gpu_names),
            "cuda_version": system.cuda_version,
            "pytorch_version": system.torch_version,
            "timestamp": datetime.fromtimestamp(run.started_s, UTC).isoformat(timespec="seconds"),
        },
        "test_summary": {
            "requested_duration_minutes": None,
            "requested_duration_reason": "tests are asked for in epochs and batches, not in minutes",
            "actual_duration_seconds": time.time() - run.started_s,
            "total_tests": total,
            "successful_tests": passed,
            "failed_tests": len(results) - passed,
            "tests_not_run": total - len(results),
            "timestamp": now,
            "num_epochs": run.epochs,
            "num_batches": run.batches,
            "num_workers": run.workers,
            "monitoring_sample_rate": run.sample_rate_s,
            "total_samples_collected": sum(r["samples_collected"] for r in results),
        },
        "results": results,
        "averages": {kind: averages(run, kind) for kind in KINDS},
        "definitions": DEFINITIONS,
    }


def result(test: LoadTest, job: Record, alone: Record | None, sample_rate_s: float) -> dict[str, Any]:
    """Return one test's part of the results. Unmeasured numbers are null, and `missing` says why."""
    well = successful(job)
    seconds = job.wall.median_s if well and job.wall else None
    images, columns = test.batch * test.iterations, in_window(job)
    stats = {key: _stats(columns.get(name, ()), unit) for key, (name, unit) in STATS.items()}
    gpu, memory = stats["gpu_utilization_stats"], job.memory.device_allocated_bytes if job.memory else None
    measured: dict[str, Any] = {
        "duration_seconds": seconds,
        "iterations": test.iterations if well else None,
        "throughput_samples_per_second": images / seconds if seconds else None,
        "avg_iteration_time_ms": seconds / test.iterations * 1e3 if seconds else None,
        "peak_gpu_memory_mb": memory / MIB if memory is not None else None,
        "peak_gpu_utilization_percent": gpu["max"] if gpu else None,
        **stats,
    }
    return {
        "test_name": test.name,
        "test_type": test.kind,
        "description": description(test.kind, test.model, test.batch),
        "batch_class": size_class(test.model, test.batch),
        "model_name": test.model,
        "batch_size": test.batch,
        "num_epochs": test.job.params.get("epochs", 1),
        "num_batches": test.job.params["batches"],
        "num_workers": test.job.params.get("workers", 0),
        "repeat": job.repeat,
        **measured,
        "success": well,
        "error_message": None if well else f"{job.verdict.value}: {'; '.join(job.reasons)}",
        "verdict": job.verdict.value,
        "reasons": list(job.reasons),
        "device": job.device,
        "samples_processed": images if well else None,
        "samples_collected": len(columns.get("t_s", ())),
        "samples": _thinned(columns, sample_rate_s),
        "compute_only": _alone(alone),
        "missing": {key: _why(job, key) for key, value in measured.items() if value is None},
    }


def in_window(record: Record) -> dict[str, tuple[float, ...]]:
    """The monitor's samples while the job itself ran, without imports and warm-up."""
    start, end = record.probes.get("window_start_s"), record.probes.get("window_end_s")
    if start is None or end is None:
        return {}
    times = record.monitor.get("t_s", ())
    rows = [i for i, at in enumerate(times) if start < at <= end + SLACK_S]
    return {name: tuple(column[i] for i in rows) for name, column in record.monitor.items()} if rows else {}


def _stats(values: Sequence[float], unit: float) -> dict[str, float] | None:
    if not values:
        return None
    scaled = [value / unit for value in values]
    return {
        "min": min(scaled),
        "max": max(scaled),
        "avg": statistics.fmean(scaled),
        "sample_count": len(scaled),
    }


def _thinned(columns: dict[str, tuple[float, ...]], interval_s: float) -> dict[str, list[float]]:
    """The first sample, and each that comes `interval_s` or more after the last one kept."""
    rows: list[int] = []
    times = columns.get("t_s", ())
    for row, at in enumerate(times):
        if not rows or at >= times[rows[-1]] + interval_s:
            rows.append(row)
    return {name: [column[row] for row in rows] for name, column in columns.items()}


def _why(record: Record, key: str) -> str:
    column = STATS[key][0] if key in STATS else ""
    if record.device == "cpu" and "gpu" in key:
        return "measured on the CPU"
    if not successful(record):
        return f"the test failed: {record.verdict.value}"
    return record.missing.get(column) or record.missing.get("monitor") or "the monitor took no sample"


def _alone(record: Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    step_s, well = record.mean_s, successful(record)
    per_s = record.work.units / step_s if well and step_s and record.work else None
    return {
        "case": record.case.id,
        "throughput_samples_per_second": per_s,
        "avg_iteration_time_ms": step_s * 1e3 if well and step_s else None,
        "layout": record.layout,
        "success": well,
        "error_message": None if well else f"{record.verdict.value}: {'; '.join(record.reasons)}",
        "verdict": record.verdict.value,
        "reasons": list(record.reasons),
    }


def averages(run: Run, kind: str) -> dict[str, Any]:
    """Work over time for each model, and how much of the computation alone the tests reach, over all."""
    models: dict[str, dict[str, float]] = {}
    shares = []
    for test, job, alone in run.measured():
        if test.kind != kind or not successful(job) or job.wall is None:
            continue
        images, seconds = test.batch * test.iterations, job.wall.median_s
        sums = models.setdefault(test.model, {"samples": 0, "seconds": 0.0})
        sums["samples"] += images
        sums["seconds"] += seconds
        if alone is not None and counts(alone) and counts(job) and alone.work and alone.mean_s:
            shares.append(images / seconds / (alone.work.units / alone.mean_s))
    for sums in models.values():
        sums["samples_per_second"] = sums["samples"] / sums["seconds"]
    mean = math.exp(statistics.fmean(map(math.log, shares))) if shares else None
    return {"models": models, "share_of_compute_only": mean, "tests_in_share": len(shares)}


def words(run: Run, record: Record) -> str:
    """Return one line on a record that has just come in."""
    progress = f"[{len(run.records)}/{2 * len(run.tests) * run.repeats}]"
    test = next(test for test in run.tests if record.case in (test.job, test.alone))
    what = test.name if record.case == test.job else f"{test.name}, computation alone"
    timing = record.wall if record.case == test.job else record.device_time or record.wall
    rate = ""
    if successful(record) and timing and record.work:
        rate = f"{record.work.units / timing.total_mean_s:.4g} images/s, "
    why = f": {'; '.join(record.reasons)}" if record.reasons else ""
    return f"{progress} {what}: {rate}{record.verdict.value}{why}"


def summary(run: Run) -> str:
    """The tests as a table, and their averages."""
    head = ["test", "seconds", "images/s", "images/s, computation alone", "verdict", "why"]
    rows = []
    for test, job, alone in run.measured():
        shown, beside = result(test, job, alone, run.sample_rate_s), _alone(alone) or {}
        numbers = [shown["duration_seconds"], shown["throughput_samples_per_second"]]
        numbers.append(beside.get("throughput_samples_per_second"))
        cells = ["–" if number is None else f"{number:.4g}" for number in numbers]
        rows.append([test.name, *cells, job.verdict.value, "; ".join(job.reasons)])
    lines = [table([head, *rows])]
    for kind in KINDS:
        means = averages(run, kind)
        for model, sums in means["models"].items():
            rate, samples, seconds = sums["samples_per_second"], sums["samples"], sums["seconds"]
            lines.append(f"{kind}, {model}: {rate:.4g} images/s ({samples} in {seconds:.4g} s)")
        if means["share_of_compute_only"] is not None:
            lines.append(
                f"{kind}: {means['share_of_compute_only']:.1%} of the computation alone "
                f"(geometric mean of {means['tests_in_share']} tests)"
            )
    return "\n".join(lines)
