"""Failures that must not pass as measurements, and are named."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from tests.gpu_proof.bench import ROOT, Bench
from tests.gpu_proof.cards import can
from tests.gpu_proof.measured import Measured, command, measure, measure_forked
from tests.gpu_proof.stages.verdicts import MEASURED
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import Row, holds, within

CHEATS = {"GRIDBENCH_WORKLOADS": str(ROOT / "tests" / "gpu_proof" / "cheats")}
# Workload, the verdicts that are right, and whether it needs a GPU.
VERDICTS = (
    ("proof_oom", {"out_of_memory"}, False),
    ("proof_stream", {"wrong"}, True),
    ("proof_conv_oom", {"out_of_memory", *MEASURED}, True),  # an engine without a workspace might be found
)
SUITE = '[[cases]]\nworkload = "proof_killed"\nsize = { n = 1 }\n'
TORCHRUN = "torch.distributed.run --standalone --nproc-per-node 2 -m workloads run matmul --size n=64"


def verdict(workload: str, right: set[str], bench: Bench) -> Iterator[Row]:
    measured = measure(bench, workload, "n=1", environ=CHEATS)
    yield _judged(f"failures {workload}", measured, right)


def killed(bench: Bench) -> Iterator[Row]:
    file = bench.out / "killed.toml"
    file.write_text(SUITE)
    try:
        arguments = f"suite {file} --repeats 1 --quick --run proof --device {bench.device}"
        measured = command(bench, arguments, CHEATS)
    finally:
        file.unlink()
    yield _judged("failures proof_killed", measured, {"crashed"})


def misused(bench: Bench) -> Iterator[Row]:
    ended = bench.run([sys.executable, "-m", *TORCHRUN.split(), "--device", bench.device], 200)
    right = not ended.late and ended.code not in (0, None) and "start it without torchrun" in ended.err
    yield holds(
        "failures torchrun", "failures torchrun", right, "is refused in a sentence" if right else ended.why
    )


def shared(bench: Bench) -> Iterator[Row]:
    load = bench.start(
        [sys.executable, "-m", "tests.gpu_proof.children.load"], subprocess.PIPE, subprocess.DEVNULL
    )
    try:
        assert load.stdout and load.stdout.readline(), "the load did not start"
        yield _judged("failures shared", measure(bench, "matmul", "n=2048"), {"shared"})
    finally:
        bench.end(load)


def spread(bench: Bench) -> Iterator[Row]:
    precision = "bf16" if bench.card and can(bench.card.capability, "bf16") else "fp32"
    runs = [start(bench, "matmul", "n=8192", precision) for start in (measure, measure_forked, measure)]
    times = [
        run.record["device_time"]["median_s"] for run in runs if run.record and run.record["device_time"]
    ]
    apart = max(times) / min(times) - 1 if len(times) == 3 else None
    yield within(
        "failures repeats", f"three {precision} products of 8192: largest over smallest - 1", apart, 0, 0.02
    )


def _judged(step: str, measured: Measured, right: set[str]) -> Row:
    wanted = " or ".join(sorted(right - MEASURED)) or "measured"
    return holds(step, step, measured.verdict in right, f"{measured.told} (right: {wanted})")


def steps(bench: Bench) -> list[Step]:
    made = [
        Step(f"failures {name}", 15, partial(verdict, name, right))
        for name, right, needs_gpu in VERDICTS
        if bench.on_gpu or not needs_gpu
    ]
    made += [Step("failures proof_killed", 15, killed), Step("failures torchrun", 10, misused)]
    return made + [Step("failures shared", 15, shared), Step("failures repeats", 35, spread)] * bench.on_gpu
