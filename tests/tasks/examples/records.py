"""Synthetic records: exact medians, varied samples, phases that add up."""

import random
from collections.abc import Sequence
from typing import Any

from tasks.results.model import Machine
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import median_interval
from workloads.harness.records.record import Record, Timing, Transfer, Verdict, Work

ENVIRONMENT = {
    "torch": "2.13.0+cpu",
    "python": "3.11.7",
    "cpu_model": "Example CPU",
    "logical_cpus": 8,
    "memory_total_bytes": 32 * 2**30,
}
A10G = ENVIRONMENT | {
    "torch": "2.13.0+cu128",
    "cuda": "12.8",
    "nvidia_driver": "570.1",
    "gpus": [{"name": "NVIDIA A10G"}],
}
MATMUL = Case.of("matmul", {"n": 5000})
IMAGES = Case.of("image_pipeline", {"pixels": 4096, "batch": 2})


def timing(median_s: float, seed: str = "", samples: int = 11, spread: float = 0.005) -> Timing:
    """Return a timing whose median and mean are `median_s` to the last bit, with an odd number of samples."""
    chance = random.Random(f"{seed}/{median_s!r}")
    half = samples // 2
    offsets = [chance.uniform(1e-4, 1) * spread for _ in range(2 * half)]
    values = [median_s * (1 - o) for o in offsets[:half]] + [median_s * (1 + o) for o in offsets[half:]]
    values.insert(half, median_s)
    interval = median_interval(values)
    return Timing(
        samples_s=tuple(values),
        block=1,
        median_s=median_s,
        ci_low_s=interval.low if interval else None,
        ci_high_s=interval.high if interval else None,
        p95_s=max(values),
        max_s=max(values),
        outliers_mild=0,
        outliers_severe=0,
        steady=True,
        precision_reached=True,
        mean_s=median_s,
    )


def work(case: Case) -> Work:
    """Return a plausible formula: matmul's own, else one that grows with every parameter."""
    params = case.params
    if case.workload == "matmul":
        n = params["n"]
        return Work(1, "products", 2.0 * n**3, 12.0 * n**2)
    area = params.get("pixels", 1) ** 2 * params.get("batch", 1)
    return Work(params.get("batch", 1), "images", 100.0 * area, 15.0 * area)


def record(
    seconds: float, case: Case = MATMUL, hardware: str = "cpu-box", repeat: int = 0, **changes: Any
) -> Record:
    phases = {"process_start": 0.1, "import": 2.0, "context": 0.0, "build": 0.3, "first_call": 2 * seconds}
    phases["samples"] = 11 * seconds
    fields: dict[str, Any] = {
        "run": "a-run",
        "verdict": Verdict.OK,
        "threads": 8,
        "phases_s": phases,
        "unattributed_s": 0.01,
        "wall_s": sum(phases.values()) + 0.01,
        "wall": timing(seconds, f"{hardware}/{case.id}/{repeat}"),
        "work": work(case),
        "transfer": Transfer(),
        "environment": ENVIRONMENT,
    }
    return Record(hardware=hardware, case=case, repeat=repeat, **(fields | changes))


def repeats(
    times: Sequence[float], case: Case = MATMUL, hardware: str = "cpu-box", **changes: Any
) -> list[Record]:
    return [record(t, case, hardware, i, **changes) for i, t in enumerate(times)]


def failed(
    verdict: Verdict, reason: str, case: Case = MATMUL, hardware: str = "cpu-box", repeat: int = 0
) -> Record:
    return Record("a-run", hardware, case, repeat, verdict, (reason,))


def machine(name: str = "cpu-box", usd_per_hour: float | None = 1.0, **changes: Any) -> Machine:
    return Machine(name, usd_per_hour, **({"price_note": "stated assumption"} | changes))
