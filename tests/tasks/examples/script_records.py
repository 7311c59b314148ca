"""Records of a user's script, with losses of a real training of a small float32 perceptron."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from tasks.findings.compare import compare
from tasks.results.comparison import Comparison
from tasks.results.model import Machine
from tests.tasks.examples.records import A10G, record, timing
from workloads.harness.records.case import Case
from workloads.harness.records.record import Memory, Record, Work
from workloads.harness.records.script import JobTime, ScriptRun

TRAIN = Case.of("train", {"batch": 32}, "own")
STEPS, ROWS = 48, 512


@cache
def losses(
    seed: int = 0, data: int = 0, rate: float = 0.1, summed: int = 0, steps: int = STEPS
) -> tuple[float, ...]:
    """Return losses of a training: `data` seeds the order of rows, `summed` that of sums in a batch."""
    drawn = np.random.default_rng(7)
    rows = drawn.standard_normal((ROWS, 20), np.float32)
    labels = (rows @ drawn.standard_normal((20, 5), np.float32)).argmax(1)
    start = np.random.default_rng(seed)
    first = start.standard_normal((20, 32), np.float32) * np.float32(0.3)
    last = start.standard_normal((32, 5), np.float32) * np.float32(0.2)
    order = np.random.default_rng(1000 * seed + data).permutation(ROWS)
    sums, told = np.random.default_rng(summed), []
    for step in range(steps):
        chosen = order[(step * 32) % ROWS :][:32]
        chosen = sums.permutation(chosen) if summed else chosen
        inner = np.maximum(rows[chosen] @ first, 0)
        scores = inner @ last
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        told.append(float(-np.log(shares[np.arange(32), labels[chosen]]).mean()))
        shares[np.arange(32), labels[chosen]] -= 1
        shares /= np.float32(32)
        back = (shares @ last.T) * (inner > 0)
        last = last - np.float32(rate) * (inner.T @ shares)
        first = first - np.float32(rate) * (rows[chosen].T @ back)
    return tuple(told)


def script_record(
    hardware: str = "a",
    repeat: int = 0,
    seconds: float = 0.1,
    steps: int | None = 10_000,
    within: float = 0.01,
    script: ScriptRun | None = None,
    case: Case = TRAIN,
    **changes: Any,
) -> Record:
    """Return one repeat of a script whose step takes `seconds`.

    Its job of `steps` is known to a share of `within`. `changes` are fields of the script's run, `device` and
    `environment` those of the record.
    """
    own = {name: changes.pop(name) for name in ("device", "environment", "memory") if name in changes}
    job_s = 5.0 + 1.02 * seconds * (steps or 0)
    run = script or ScriptRun(
        ("train.py", "--batch", "32"),
        code="sha256:11",
        steps=400,
        optimizers=("AdamW",),
        accumulation=1.0,
        samples=32,
        losses=losses(),
        shares={"loader": 0.1, "compute": 0.85, "other": 0.05},
        mean_s=1.02 * seconds,
        mean_low_s=1.01 * seconds,
        mean_high_s=1.03 * seconds,
        first_step_s=5.0,
        epoch_steps=100,
        job=JobTime(steps, job_s, job_s * (1 - within), job_s * (1 + within)) if steps else None,
        memory_left_bytes=6 * 2**30,
    )
    fields = {"work": Work(32, "samples", None, None), "memory": Memory(2 * 2**30), **own}
    made = record(seconds, case, hardware, repeat, **fields)
    wall = timing(seconds, f"{hardware}/{case.id}/{repeat}", spread=0.02)
    return replace(made, wall=wall, script=replace(run, **changes))


def script_repeats(hardware: str, times: Sequence[float], **changes: Any) -> list[Record]:
    return [script_record(hardware, number, seconds, **changes) for number, seconds in enumerate(times)]


MACHINES = (
    Machine("aws-g5.xlarge", 1.006, "on-demand, us-east-1, 2026-07-20", 1),
    Machine("aws-g6.xlarge", 0.8048, "on-demand, us-east-1, 2026-07-20", 1),
    Machine("local-cpu", 0.1, "stated assumption"),
)


def run() -> tuple[list[Record], Comparison]:
    """Return two sizes of a script on three machines: one waits for data, one copies, one diverges at batch 64."""
    waits = {"loader": 0.63, "copy": 0.08, "launch": 0.03, "compute": 0.22, "other": 0.04}
    copies = {"loader": 0.09, "copy": 0.14, "launch": 0.05, "compute": 0.7, "other": 0.02}
    gpu = {
        "device": "cuda",
        "memory": Memory(3 * 2**30, 9 * 2**30, 11 * 2**30),
        "memory_left_bytes": 11 * 2**30,
    }
    l4 = gpu | {"environment": A10G | {"gpus": [{"name": "NVIDIA L4"}]}, "shares": copies}
    kinds = (gpu | {"environment": A10G, "shares": waits}, l4, {"shares": {"loader": 0.02, "compute": 0.98}})
    made = []
    for place, batch in enumerate((32, 64)):
        case = Case.of("train", {"batch": batch}, "own")
        for hardware, factor, changes in zip(MACHINES, (0.36, 0.2, 3.1), kinds, strict=True):
            rate = 0.0 if (batch, hardware.name) == (64, "local-cpu") else 0.1
            for number, noise in enumerate((0.99, 1.0, 1.012)):
                course = losses(seed=place, data=place, rate=rate, summed=number)
                seconds = factor * noise * (1 + place)
                made.append(
                    script_record(
                        hardware.name, number, seconds, case=case, losses=course, samples=batch, **changes
                    )
                )
    return made, compare(made, MACHINES, MACHINES[0].name)
