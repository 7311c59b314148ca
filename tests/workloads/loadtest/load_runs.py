"""Handmade runs of the load test."""

import time
from dataclasses import replace

from tests.workloads.harness.records.timings import timing
from workloads.harness.records.record import Record, Verdict, Work
from workloads.loadtest.report import Run

NAMES = [f"{kind}_{model}" for kind in ("train", "inference") for model in ("simple_cnn_bs", "resnet_bs")]
TWELVE = [f"{name}{batch}" for name in NAMES for batch in ((16, 32, 64) if "simple" in name else (8, 16, 32))]
SUMMARY_KEYS = {
    *("requested_duration_minutes", "actual_duration_seconds", "total_tests", "successful_tests"),
    *("failed_tests", "timestamp", "num_epochs", "num_batches", "num_workers", "monitoring_sample_rate"),
    "total_samples_collected",
}
RESULT_KEYS = {
    *("test_name", "test_type", "description", "model_name", "batch_size", "duration_seconds", "iterations"),
    *("throughput_samples_per_second", "avg_iteration_time_ms", "peak_gpu_memory_mb"),
    *("peak_gpu_utilization_percent", "success", "error_message", "cpu_usage_stats", "memory_usage_stats"),
    *("gpu_utilization_stats", "gpu_memory_stats"),
}
SYSTEM = {
    **{"hostname": "a-box", "cpu_count": 8, "memory_total_gb": 16.0, "gpu_count": 1, "gpu_names": ["A GPU"]},
    **{"cuda_version": "12.8", "pytorch_version": "2.13.0"},
}
SYSTEM_KEYS = {*SYSTEM, "timestamp"}


def run_of(tests, records=(), rate_s=5.0):
    return Run(tests, SYSTEM, rate_s, 1, time.time() - 9, list(records))


def record_of(case, seconds, units, **changes):
    """Return a record of a step or job that took `seconds` for `units` images on a GPU."""
    step = timing(samples_s=(seconds,) * 3, median_s=seconds)
    found = Record(
        "r",
        "here",
        case,
        1,
        Verdict.OK,
        device="cuda",
        wall=step,
        device_time=step if "device_busy_s" in changes else None,
    )
    return replace(found, work=Work(units, "images", 1.0, 1.0), **changes)


def failed_record(test, verdict=Verdict.CRASHED):
    return Record("r", "here", test.job, 1, verdict, ("the measuring process was killed by SIGSEGV",))
