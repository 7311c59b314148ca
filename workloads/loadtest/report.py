"""The load test's results, as JSON and as a summary for a terminal."""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.records.step_parts import StepParts, job_parts, step_parts
from workloads.harness.records.text import table
from workloads.harness.registry import Task, find

KINDS: tuple[Task, ...] = ("training", "inference")
SIZES = ("small", "medium", "large")
BATCHES = {"simple_cnn": (16, 32, 64), "resnet": (8, 16, 32)}  # small, medium, large
SHOWS = {  # the purpose of each batch size, by kind of test and model
    ("training", "simple_cnn"): (
        "Small batch CNN training - Tests GPU efficiency with limited parallelism and memory usage",
        "Medium batch CNN training - Balanced test of GPU compute and memory bandwidth",
        "Large batch CNN training - Tests GPU memory capacity and high-throughput compute",
    ),
    ("training", "resnet"): (
        "Small batch ResNet training - Tests GPU with complex operations and moderate memory usage",
        "Medium batch ResNet training - Balanced complex compute with memory efficiency",
        "Large batch ResNet training - Stress test for GPU memory and complex operations",
    ),
    ("inference", "simple_cnn"): (
        "Small batch CNN inference - Tests low-latency inference scenarios",
        "Medium batch CNN inference - Balanced inference throughput testing",
        "Large batch CNN inference - High-throughput inference performance test",
    ),
    ("inference", "resnet"): (
        "Small batch ResNet inference - Complex model low-latency inference test",
        "Medium batch ResNet inference - Balanced complex inference workload",
        "Large batch ResNet inference - High-throughput complex model inference",
    ),
}
DEFINITIONS = {
    "duration_seconds": "of the whole job, through the data loader, until the device is idle; warm-up apart",
    "throughput_samples_per_second": "samples_processed / duration_seconds",
    "avg_iteration_time_ms": "duration_seconds / iterations",
    "iterations": "batches that were gone through: in training those of all epochs",
    "peak_gpu_memory_mb": "MiB that torch's allocator held for this process on the device, at most",
    "peak_gpu_utilization_percent": "of the samples; the share of time in which any kernel ran",
    "cpu_usage_stats": "percent of all CPUs of the machine, loader processes included",
    "process_cpu_stats": "percent of one CPU, of the measuring process without its loader processes",
    "memory_usage_stats": "MiB of the machine's memory in use",
    "process_memory_stats": "MiB resident in the measuring process",
    "gpu_utilization_stats": "percent of time in which any kernel ran on the device that was measured",
    "gpu_memory_stats": "MiB in use on the whole device that was measured, by all processes",
    "gpu_temperature_stats": "degrees Celsius of the device that was measured",
    "sample_count": "samples that the statistics are of: all that were taken while the job ran, 4 a second",
    "monitoring_sample_rate": "seconds between the samples shown under `samples`, which are some of those",
    "total_samples_collected": "samples that statistics are of, over all tests",
    "success": "the job came to its end and its result was right; `verdict` says what its time is worth",
    "num_batches": "of an epoch, or of an inference test; in test_summary the most that any test has",
    "compute_only": "the same step on one batch that is in place: mean time, no data loader",
    "share_of_compute_only": "geometric mean, over tests whose numbers count, of a test's throughput over "
    "that of its computation alone",
    "iteration_parts_ms": "parts of an iteration: the device computes; it waits for its host; for the loader and "
    "copies (the job's time beyond its computation alone); it exchanges gradients. On a CPU, which is "
    "the device and the host, `host` is 0",
    "iteration_parts_share": "mean share of each part, over the tests that share_of_compute_only is of",
    "models": "all samples of a model over all its seconds; different models are never averaged",
    "batch_class": "small: low latency; medium: balanced; large: memory capacity and throughput",
}
MIB = 2**20
SLACK_S = 0.1  # the sample that is asked for at the end of a window comes at most this much later
STATS = {  # key of the results: column of the monitor, and the key's unit in the column's
    "cpu_usage_stats": ("host_cpu_percent", 1.0),
    "process_cpu_stats": ("cpu_percent", 1.0),
    "memory_usage_stats": ("host_memory_used_bytes", MIB),
    "process_memory_stats": ("rss_bytes", MIB),
    "gpu_utilization_stats": ("gpu_utilisation_share", 0.01),
    "gpu_memory_stats": ("gpu_memory_used_bytes", MIB),
    "gpu_temperature_stats": ("gpu_temperature_c", 1.0),
}


@dataclass(frozen=True, slots=True)
class LoadTest:
    """One test: a whole job through the data loader, and its computation's step alone."""

    kind: str
    model: str
    job: Case
    alone: Case

    @classmethod
    def of(cls, job: Case) -> "LoadTest":
        """Return the test of a job.

        Raises:
            WorkloadsError: its workload is not a whole training or inference.
        """
        workload = find(job.workload)
        task, model, alone = workload.task, workload.model, workload.of
        if not (task and model and alone and {"batch", "batches"} <= job.params.keys()):
            raise WorkloadsError(
                f"{job.workload} is not a load test; a load test is a whole training or inference of a network "
                "with the sizes batch and batches"
            )
        base = find(alone)
        size = {name: value for name, value in job.size if name in base.sizes}
        return cls(task, model, job, base.case(size, job.precision))

    @property
    def batch(self) -> int:
        """Samples in a batch."""
        return self.job.params["batch"]

    @property
    def name(self) -> str:
        """Name such as `train_simple_cnn_bs32` or `inference_resnet_bs8`."""
        return f"{'train' if self.kind == 'training' else self.kind}_{self.model}_bs{self.batch}"

    @property
    def iterations(self) -> int:
        """Batches of the whole job."""
        return self.job.params.get("epochs", 1) * self.job.params["batches"]


@dataclass(slots=True)
class Run:
    """A load test and its records so far; `system` describes the machine."""

    tests: Sequence[LoadTest]
    system: dict[str, Any]
    sample_rate_s: float
    repeats: int
    started_s: float
    records: list[Record] = field(default_factory=list)

    def measured(self) -> Iterator[tuple[LoadTest, Record, Record | None]]:
        """Yield each ended test, its job's record, and its computation's."""
        records = {(record.case, record.repeat): record for record in self.records}
        for repeat in range(1, self.repeats + 1):
            for test in self.tests:
                if job := records.get((test.job, repeat)):
                    yield test, job, records.get((test.alone, repeat))

    @property
    def failed(self) -> bool:
        """True if a test or its computation alone has failed or is missing."""
        ended = [*self.measured()]
        return len(ended) < len(self.tests) * self.repeats or not all(
            successful(job) and successful(alone) for _, job, alone in ended
        )


def successful(record: Record | None) -> bool:
    """Return whether a record has a time, even a doubtful one."""
    return record is not None and not record.verdict.is_failure and record.wall is not None


def document(run: Run) -> dict[str, Any]:
    """Return the load test's JSON; `definitions` explains each key."""
    results = [result(test, job, alone, run.sample_rate_s) for test, job, alone in run.measured()]
    passed, total = sum(r["success"] for r in results), len(run.tests) * run.repeats
    sizes = [test.job.params for test in run.tests]
    started = datetime.fromtimestamp(run.started_s, UTC).isoformat(timespec="seconds")
    return {
        "system_info": {**run.system, "timestamp": started},
        "test_summary": {
            "requested_duration_minutes": None,
            "requested_duration_reason": "tests are asked for in epochs and batches, not in minutes",
            "actual_duration_seconds": time.time() - run.started_s,
            "total_tests": total,
            "successful_tests": passed,
            "failed_tests": len(results) - passed,
            "tests_not_run": total - len(results),
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "num_epochs": max(size.get("epochs", 1) for size in sizes),
            "num_batches": max(size["batches"] for size in sizes),
            "num_workers": sizes[0].get("workers", 0),
            "monitoring_sample_rate": run.sample_rate_s,
            "total_samples_collected": sum(r["samples_collected"] for r in results),
        },
        "results": results,
        "averages": {kind: averages(run, kind) for kind in KINDS},
        "definitions": DEFINITIONS,
    }


def result(test: LoadTest, job: Record, alone: Record | None, sample_rate_s: float) -> dict[str, Any]:
    """Return one test's results; `missing` has the reasons of null numbers."""
    well = successful(job)
    seconds = job.wall.median_s if well and job.wall else None
    images, columns = test.batch * test.iterations, in_window(job)
    stats = {key: _stats(columns.get(name, ()), unit) for key, (name, unit) in STATS.items()}
    gpu, memory = stats["gpu_utilization_stats"], job.memory.device_allocated_bytes if job.memory else None
    batches = BATCHES.get(test.model, ())
    size_class, description = None, f"{test.model} {test.kind} with batches of {test.batch}"
    if test.batch in batches:
        place = batches.index(test.batch)
        size_class, description = SIZES[place], SHOWS[test.kind, test.model][place]
    shown: list[int] = []  # rows of the monitor, at least `sample_rate_s` apart
    times = columns.get("t_s", ())
    for row, at in enumerate(times):
        if not shown or at >= times[shown[-1]] + sample_rate_s:
            shown.append(row)
    measured: dict[str, Any] = {
        "duration_seconds": seconds,
        "iterations": test.iterations if well else None,
        "throughput_samples_per_second": images / seconds if seconds else None,
        "avg_iteration_time_ms": seconds / test.iterations * 1e3 if seconds else None,
        "peak_gpu_memory_mb": memory / MIB if memory is not None else None,
        "peak_gpu_utilization_percent": gpu["max"] if gpu else None,
        **stats,
    }
    parts = parts_of(test, job, alone)
    missing = {key: _why(job, key) for key, value in measured.items() if value is None}
    if parts is None:
        missing["iteration_parts_ms"] = _why_no_parts(job, alone)
    return {
        "test_name": test.name,
        "test_type": test.kind,
        "description": description,
        "batch_class": size_class,
        "model_name": test.model,
        "batch_size": test.batch,
        "num_epochs": test.job.params.get("epochs", 1),
        "num_batches": test.job.params["batches"],
        "num_workers": test.job.params.get("workers", 0),
        "repeat": job.repeat,
        **measured,
        **_ending(job),
        "device": job.device,
        "samples_processed": images if well else None,
        "samples_collected": len(times),
        "samples": {name: [column[row] for row in shown] for name, column in columns.items()},
        "compute_only": _alone(alone),
        "iteration_parts_ms": asdict(parts.scaled(1e3)) if parts else None,
        "missing": missing,
    }


def parts_of(test: LoadTest, job: Record, alone: Record | None) -> StepParts | None:
    """Return the parts of a job's iteration in seconds, if its computation alone has parts."""
    if alone is None or not (successful(job) and successful(alone) and job.wall and alone.mean_s):
        return None
    parts = step_parts([alone])
    if alone.device == "cpu":
        parts = StepParts(alone.mean_s, 0.0)
    return job_parts(job.wall.median_s / test.iterations, parts) if parts else None


def in_window(record: Record) -> dict[str, tuple[float, ...]]:
    """Return the monitor's samples of the job itself, without imports and warm-up."""
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


def _ending(record: Record) -> dict[str, Any]:
    well, verdict = successful(record), record.verdict.value
    return {
        "success": well,
        "error_message": None if well else f"{verdict}: {'; '.join(record.reasons)}",
        "verdict": verdict,
        "reasons": list(record.reasons),
    }


def _why(record: Record, key: str) -> str:
    column = STATS[key][0] if key in STATS else ""
    if record.device == "cpu" and "gpu" in key:
        return "measured on the CPU"
    if not successful(record):
        return f"the test failed: {record.verdict.value}"
    return record.missing.get(column) or record.missing.get("monitor") or "the monitor took no sample"


def _why_no_parts(job: Record, alone: Record | None) -> str:
    if not successful(job):
        return f"the test failed: {job.verdict.value}"
    if alone is None or not successful(alone):
        return "its computation alone has no time"
    return alone.missing.get("device_busy_s") or "the device's own time is not known"


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
        **_ending(record),
    }


def averages(run: Run, kind: str) -> dict[str, Any]:
    """Return each model's throughput, and the tests' mean share of the computation's throughput."""
    models: dict[str, dict[str, float]] = {}
    shares, split = [], []
    for test, job, alone in run.measured():
        if test.kind != kind or not successful(job) or job.wall is None:
            continue
        images, seconds = test.batch * test.iterations, job.wall.median_s
        sums = models.setdefault(test.model, {"samples": 0, "seconds": 0.0})
        sums["samples"] += images
        sums["seconds"] += seconds
        if alone is not None and counts(alone) and counts(job) and alone.work and alone.mean_s:
            shares.append(images / seconds / (alone.work.units / alone.mean_s))
            split.append(parts_of(test, job, alone))
    for sums in models.values():
        sums["samples_per_second"] = sums["samples"] / sums["seconds"]
    mean = statistics.geometric_mean(shares) if shares else None
    return {
        "models": models,
        "share_of_compute_only": mean,
        "tests_in_share": len(shares),
        "iteration_parts_share": _mean_shares([parts for parts in split if parts]),
    }


def _mean_shares(parts: Sequence[StepParts]) -> dict[str, float] | None:
    shares = [asdict(found.scaled(1 / found.step_s)) for found in parts]
    return {name: statistics.fmean(of[name] for of in shares) for name in shares[0]} if shares else None


def words(run: Run, record: Record) -> str:
    """Return a line about a new record."""
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
    """Return the table of the tests, and their averages."""
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
        if means["iteration_parts_share"]:
            lines.append(f"{kind}: {parts_text(means['iteration_parts_share'])}")
    return "\n".join(lines)


def parts_text(shares: Mapping[str, float]) -> str:
    """Return a sentence with each part's share of an iteration."""
    computes, host, loader = (f"{shares[name]:.0%}" for name in ("device", "host", "loader"))
    return f"the device computes for {computes} of an iteration, waits for its host for {host}, for data for {loader}"
