"""Unmeasured steps: FLOPs and bytes by fake tensors, over a card's rates."""

import math
from collections.abc import Sequence

import numpy as np

from tasks.planning.hardware import Hardware
from tasks.planning.memory import Predicted
from tasks.planning.memory import predict as predict_memory
from tasks.planning.plan import PlannedCase
from tasks.prediction.card_ratio import LEVEL
from tasks.prediction.evidence import Evidence
from tasks.prediction.step import (
    DRAWS,
    GRAPHED,
    HOSTS,
    LAUNCH_S,
    PER_LAUNCH,
    SEED,
    Prediction,
    Unpredictable,
    rates_of,
)
from tasks.results.forecast import NORMAL_90
from tasks.results.values import Estimate
from workloads.harness.checks.fits import Fit

SOURCE = "fake tensors"
# Fourteen steps of nine cases on an H100 and an H200 took 0.64 to 2.1 times what follows from this: docs/predict.md.
SLOWER = 1.15
FACTOR = 2.5  # of the 90 % interval, up and down: other cards differ more from their data sheets


def predict_unmeasured(
    cases: Sequence[PlannedCase], targets: Sequence[Hardware], evidence: Evidence
) -> list[Prediction]:
    """Predict by the work of a step, or say why it is unknown.

    Raises:
        GridbenchError: the process for steps without values failed.
    """
    pairs = [(machine, case) for case in cases for machine in targets]
    return [
        _predicted(machine, found, evidence)
        for (machine, _), found in zip(pairs, predict_memory(pairs, with_step=True), strict=True)
    ]


def _predicted(machine: Hardware, found: Predicted, evidence: Evidence) -> Prediction:
    case, step = found.cell.case, found.needs.step
    if found.fit is Fit.NO:
        return Prediction(case, SOURCE, machine.name, refused=found.reason or "", is_impossible=True)
    if step is None:
        why = found.needs.reason or "its step has no work that can be counted"
        return Prediction(case, SOURCE, machine.name, refused=f"{why}: measure it on any machine first")
    try:
        rates, _, words = rates_of(machine, machine, evidence, case.precision)
    except Unpredictable as reason:
        return Prediction(case, SOURCE, machine.name, refused=str(reason))
    parts = {"compute": step.flops / rates.compute, "memory": step.moved_bytes / rates.memory}
    device_s = SLOWER * sum(parts.values())
    is_launched = machine.device == "cuda" and case.mode not in GRAPHED
    host_s = PER_LAUNCH * LAUNCH_S * step.launches if is_launched else 0.0
    rng = np.random.default_rng(SEED)
    spread = np.exp(math.log(FACTOR) / NORMAL_90 * rng.standard_normal(DRAWS))
    speed = np.exp(rng.uniform(-math.log(HOSTS), math.log(HOSTS), DRAWS))
    total = np.maximum(device_s * spread, host_s / speed)
    low, middle, high = map(float, np.quantile(total, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]))
    hosts = float(np.mean(host_s / speed > device_s * spread))
    shares = {name: (1 - hosts) * SLOWER * part_s / device_s for name, part_s in parts.items() if device_s}
    return Prediction(
        case,
        SOURCE,
        machine.name,
        Estimate(middle, low, high),
        parts=dict(sorted((shares | {"host": hosts}).items(), key=lambda part: -part[1])),
        rests_on=("no record: FLOPs, bytes and launches by fake tensors", words, "its host unknown"),
    )
