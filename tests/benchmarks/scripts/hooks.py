"""What hooks cost a user's script: training steps of about 1 ms with and without them, in turns."""

import statistics
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.intervals import median_interval
from workloads.harness.script.course import CoursePlan
from workloads.harness.script.measurement import Measurement

PAIRS, STEPS, SPIN_S = 25, 600, 0.7e-3
GOAL = 1.01
FOREVER = CoursePlan(Rules(), cap_s=1e9, predicts=True)


def main() -> None:
    """Print the time of a step under hooks over that of one without."""
    torch.set_num_threads(1)
    ratios = []
    for pair in range(PAIRS):
        turns = (hooked_s, plain_s) if pair % 2 else (plain_s, hooked_s)
        seconds = {turn: turn() for turn in turns}
        ratios.append(seconds[hooked_s] / seconds[plain_s])
    middle = median_interval(ratios)
    print(
        f"step under hooks / without, {statistics.median(ratios):.4f} "
        f"(95 % interval {middle.low:.4f} to {middle.high:.4f}, goal at most {GOAL})"
    )


def plain_s() -> float:
    """Median seconds of a step: a batch, a small model, and a spin that makes it about 1 ms long."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(4 * STEPS, 64), torch.randint(0, 10, (4 * STEPS,)))
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
    return statistics.median(seconds)


def hooked_s() -> float:
    """Median seconds of the same, measured as a script is."""
    kept = torch.autograd.backward, torch.amp.GradScaler.scale, torch.compile, _BaseDataLoaderIter.__next__
    phases = Phases()
    measurement = Measurement(FOREVER, phases, Readings("cpu", 1, phases.origin_s), whole=True)
    measurement.when_done(lambda ending: 0)
    measurement.hooks.install(torch)
    try:
        return plain_s()
    finally:
        torch.autograd.backward, torch.amp.GradScaler.scale, torch.compile, _BaseDataLoaderIter.__next__ = (
            kept
        )
        measurement.hooks.switch_off()
        measurement.hooks._step_hook.remove()


if __name__ == "__main__":
    main()
