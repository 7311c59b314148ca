"""The texts of the load test: the meaning of its tests and keys."""

SIZES = ("small", "medium", "large")
BATCHES = {"simple_cnn": (16, 32, 64), "resnet": (8, 16, 32)}  # small, medium, large
SHOWS = {  # what each batch size is there to show, by kind of test and model
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
    "models": "all samples of a model over all its seconds; different models are never averaged",
    "batch_class": "small: low latency; medium: balanced; large: memory capacity and throughput",
}


def size_class(model: str, batch: int) -> str | None:
    """Class a batch as small, medium or large for a model; None for other sizes."""
    batches = BATCHES.get(model, ())
    return SIZES[batches.index(batch)] if batch in batches else None


def description(kind: str, model: str, batch: int) -> str:
    """Say what a test is there to show."""
    batches = BATCHES.get(model, ())
    if batch in batches:
        return SHOWS[kind, model][batches.index(batch)]
    return f"{model} {kind} with batches of {batch}"
