"""Count false and right accusations of trainings: `python -m tests.tasks.plausibility.simulated_trainings`.

Its arguments are the number of seeds, and that of losses in a record. Small nets are really trained by torch
on a CPU. Another order of summation is the same batch in another order.
"""

import sys
from dataclasses import replace
from functools import cache
from itertools import product

import torch
from torch import nn
from torch.nn import functional as F

from tasks.plausibility.trainings import Standing, courses
from tests.tasks.examples.records import A10G, ENVIRONMENT, machine, record
from workloads.harness.records.case import Case
from workloads.harness.records.script import ScriptRun
from workloads.harness.script.observations import LOSSES

STEPS = int(sys.argv[2]) if sys.argv[2:] else LOSSES
BATCH, IMAGES = 32, 1024
RATES = {"sgd": 0.1, "momentum": 0.1, "adam": 1e-3, "fast adam": 1e-2}
CASE = Case.of("train", {"batch": BATCH}, "own")


def net(kind, dropout):
    """Return a perceptron, a convnet with batch norm, or a small transformer."""
    if kind == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(144, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, 10)
        )
    if kind == "convnet":
        first = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)
        return nn.Sequential(*first, nn.ReLU(), nn.Flatten(), nn.Dropout(dropout), nn.Linear(1024, 10))
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout, batch_first=True)
    rows = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Flatten(2), nn.Linear(144 // 12, 32), rows, nn.Flatten(), nn.Linear(12 * 32, 10))


def optimizer(name, model, times):
    rate = RATES[name] * times
    if "adam" in name:
        return torch.optim.Adam(model.parameters(), rate)
    return torch.optim.SGD(model.parameters(), rate, momentum=0.9 if name == "momentum" else 0.0)


@cache
def train(
    kind, name, seed=0, *, data=0, times=1.0, summed=0, masks=0, dropout=0.0, bf16=False, half_from=None
):
    """Return losses of a training: `data` seeds the order, `summed` that of sums, `masks` those of dropout."""
    drawn = torch.Generator().manual_seed(7)
    images = torch.randn(IMAGES, 1, 12, 12, generator=drawn)
    scores = images.flatten(1) @ torch.randn(144, 10, generator=drawn)
    labels = (scores + 4 * torch.randn(IMAGES, 10, generator=drawn)).argmax(1)
    torch.manual_seed(seed)
    model = net(kind, dropout)
    if kind == "transformer":
        images = images.squeeze(1)
    learner = optimizer(name, model, times)
    order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(1000 * seed + data))
    sums = torch.Generator().manual_seed(summed)
    torch.manual_seed(9000 + 100 * seed + masks)
    losses = []
    for step in range(STEPS):
        rows = order[(step * BATCH) % IMAGES :][:BATCH]
        rows = rows[torch.randperm(len(rows), generator=sums)] if summed else rows
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(model(images[rows]).float(), labels[rows])
        losses.append(loss.item())
        learner.zero_grad()
        loss.backward()
        if (
            half_from is not None and step >= half_from
        ):  # scaled by 2**24, in fp16: values above 65504 overflow
            for weights in model.parameters():
                weights.grad = (weights.grad * 2**24).half().float() / 2**24
        learner.step()
    return tuple(losses)


def run(curves):
    """Return records of machines with their repeats' losses; names that begin with gpu are GPUs."""
    made = []
    for hardware, repeats in curves.items():
        gpu = hardware.startswith("gpu")
        for repeat, losses in enumerate(repeats):
            one = record(0.1, CASE, hardware, repeat, environment=A10G if gpu else ENVIRONMENT)
            script = ScriptRun(("train.py",), code="sha256:1", samples=BATCH, losses=losses)
            made.append(replace(one, device="cuda" if gpu else "cpu", script=script))
    return made


def standings(curves):
    judged = courses(run(curves), [machine(name) for name in curves])
    return {name: [c.standing for c in judged if c.record.hardware == name] for name in curves}


def scenarios(kind, name, seed):
    """Yield a label, whether something is wrong, and the losses of two machines with three repeats each."""

    def three(**options):
        return [train(kind, name, seed, **{"summed": 10 * number + 1} | options) for number in range(3)]

    def noisy(shift, **options):
        return [train(kind, name, seed, summed=10 * n + shift, **options) for n in range(3)]

    base = three(summed=0)
    yield "fp32, sums in another order, one kind", False, {"a": base, "b": noisy(1)}
    yield "fp32, sums in another order in every repeat, one kind", False, {"a": noisy(2), "b": noisy(3)}
    yield (
        "bf16, sums in another order in every repeat, one kind",
        False,
        {"a": noisy(2, bf16=True), "b": noisy(3, bf16=True)},
    )
    yield "bf16, two kinds", False, {"a": noisy(2, bf16=True), "gpu": noisy(3, bf16=True)}
    yield "fp32 against bf16, two kinds", False, {"a": base, "gpu": noisy(1, bf16=True)}
    dropped = three(summed=0, dropout=0.2)
    yield "other masks of dropout, two kinds", False, {"a": dropped, "gpu": noisy(1, dropout=0.2, masks=1)}
    free = [train(kind, name, 100 + 10 * seed + n, data=n, masks=n, dropout=0.1) for n in range(6)]
    yield "no seed, one kind", False, {"a": free[:3], "b": free[3:]}
    yield "no seed, two kinds", False, {"a": free[:3], "gpu": free[3:]}
    for label, hardware in (("one kind", "b"), ("two kinds", "gpu")):
        yield f"other order of data, {label}", True, {"a": base, hardware: noisy(1, data=1)}
        for times in (0.1, 0.5, 2.0, 10.0):
            yield f"learning rate x {times:g}, {label}", True, {"a": base, hardware: noisy(1, times=times)}
        yield (
            f"fp16 overflows at a third of the steps, {label}",
            True,
            {"a": base, hardware: noisy(1, half_from=STEPS // 3)},
        )
    slow = [train(kind, name, 100 + 10 * seed + n, data=n, times=0.0) for n in range(3)]
    yield "no seed, and the weights never move, two kinds", True, {"a": free[:3], "gpu": slow}


def table(seeds):
    """Print by scenario how often the second machine is the same, not shown, wrong; and the first wrong."""
    counted = {}
    for kind, name, seed in product(("mlp", "convnet", "transformer"), RATES, range(seeds)):
        for label, _, curves in scenarios(kind, name, seed):
            first, second = standings(curves).values()
            row = counted.setdefault(label, [0, 0, 0, 0, 0])
            row[0] += 1
            row[1] += Standing.SAME in second and Standing.WRONG not in second
            row[2] += Standing.UNSHOWN in second and Standing.WRONG not in second
            row[3] += Standing.WRONG in second
            row[4] += Standing.WRONG in first
    print(f"{'':62}runs  same  not shown  wrong  baseline wrong")
    for label, (runs, same, unshown, wrong, base) in counted.items():
        print(
            f"{label:62}{runs:4}{same / runs:6.0%}{unshown / runs:11.0%}{wrong / runs:7.0%}{base / runs:16.0%}"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    table(int(sys.argv[1]) if sys.argv[1:] else 3)
