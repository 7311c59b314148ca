"""The cost of hooks: steps of about 1 ms with and without them, in turns.

First in the hooks' usual state, then while samples are taken, when each step is a block. Work between two
blocks is in this time but not in a record's.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, TensorDataset

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.intervals import median_interval
from workloads.harness.script.measurement import Measurement
from workloads.harness.script.sampling import SamplingPlan

PAIRS, STEPS, SPIN_S = 25, 600, 0.7e-3
MODULES = 100
LEFT_OUT = 400  # steps at the beginning, in which a brief course is over
GOAL = 1.01
SAMPLED = SamplingPlan(Rules().brief(), cap_s=1e9, predicts=True)
SAMPLING = SamplingPlan(Rules(), cap_s=1e9, predicts=True)


def main() -> None:
    torch.set_num_threads(1)
    goal = f", goal at most {GOAL}"
    report("step under hooks / without", SAMPLED, trained_s, goal)
    report("call of a model of many modules under hooks / without", SAMPLED, called_s, goal)
    report("step while samples are taken / without hooks", SAMPLING, trained_s)


def report(name: str, plan: SamplingPlan, timed_s: Callable[[], float], goal: str = "") -> None:
    ratios = []
    for pair in range(PAIRS):
        turns = (True, False) if pair % 2 else (False, True)
        seconds = {is_hooked: hooked_s(plan, timed_s) if is_hooked else timed_s() for is_hooked in turns}
        ratios.append(seconds[True] / seconds[False])
    middle = median_interval(ratios)
    interval = f"95 % interval {middle.low:.4f} to {middle.high:.4f}"
    print(f"{name}, {statistics.median(ratios):.4f} ({interval}{goal})", flush=True)


def called_s() -> float:
    """Return median seconds of a call of a model: MODULES small modules, about 1 ms."""
    layers = [torch.nn.Linear(64, 64) for _ in range(MODULES)]
    model = torch.nn.Sequential(*(torch.nn.Sequential(layer) for layer in layers)).eval()
    x, seconds = torch.randn(4, 64), []
    with torch.inference_mode():
        began = time.perf_counter()
        for _ in range(LEFT_OUT + STEPS):
            model(x)
            now = time.perf_counter()
            seconds.append(now - began)
            began = now
    return statistics.median(seconds[LEFT_OUT:])


def trained_s() -> float:
    """Return median seconds of a step: a batch, a small model, and a spin up to about 1 ms."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = 4 * (LEFT_OUT + STEPS)
    data = TensorDataset(torch.randn(samples, 64), torch.randint(0, 10, (samples,)))
    seconds, began = [], time.perf_counter()
    for x, y in DataLoader(data, batch_size=4):
        ends = time.perf_counter() + SPIN_S
        while time.perf_counter() < ends:
            pass
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        now = time.perf_counter()
        seconds.append(now - began)
        began = now
    return statistics.median(seconds[LEFT_OUT:])


def hooked_s(plan: SamplingPlan, timed_s: Callable[[], float]) -> float:
    phases = Phases()
    measurement = Measurement(plan, phases, Readings("cpu", 1, phases.origin_s), whole=True)
    measurement.finish = lambda ending: 0
    measurement.hooks.install(torch)
    try:
        seconds = timed_s()
    finally:
        measurement.hooks.remove()
    assert measurement.trouble is None, measurement.trouble
    return seconds


if __name__ == "__main__":
    main()
