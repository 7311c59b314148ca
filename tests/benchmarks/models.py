"""Throughput of ResNet and DDPM training under the harness over a plain loop of the same model."""

import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.device import open_device
from workloads.harness.engine.measure import Restarts
from workloads.harness.engine.monitor import Monitor
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.timing import time_step
from workloads.harness.prepared import Env, Prepared
from workloads.harness.probes.cpu import cores
from workloads.harness.registry import find
from workloads.nets.diffusion import DECAY, LEARNING_RATE, schedule
from workloads.nets.unet import STEPS, UNet
from workloads.resnet import net
from workloads.vision.ddpm import ddpm

TURNS, GOAL = 7, 0.99
Step = Callable[[], object]


def main() -> None:
    for name, ours, theirs, turn_s in (
        (
            "ResNet, batch 16",
            lambda env: find("resnet_train").build(env, batch=16),
            lambda: plain_resnet(16),
            3.0,
        ),
        ("DDPM, batch 1", lambda env: ddpm(env, 1), lambda: plain_ddpm(1), 10.0),
    ):
        device, generator = open_device("cpu", "fp32", cores()), torch.Generator().manual_seed(0)
        env = Env(device.torch_device, torch.float32, "contiguous", generator, lambda tensor: tensor)
        ratios = throughput_ratios(ours(env), theirs(), turn_s)
        print(
            f"throughput, harness / plain loop, {name}: {statistics.median(ratios):.4f} "
            f"({min(ratios):.3f} to {max(ratios):.3f}, goal at least {GOAL})"
        )


def throughput_ratios(prepared: Prepared, step: Step, turn_s: float) -> list[float]:
    """Return the plain loop's time over the harness's, by turn; they alternate in going first."""
    rules = Rules(sample_min_s=turn_s, sample_cap_s=2 * turn_s, warm_cap_s=turn_s)
    ways = (lambda: plain_s(step, turn_s), lambda: harness_s(prepared, rules))
    ratios = []
    for turn in range(TURNS):
        if turn % 2:
            plain, harness = ways[0](), ways[1]()
        else:
            harness, plain = ways[1](), ways[0]()
        ratios.append(plain / harness)
    return ratios


def harness_s(prepared: Prepared, rules: Rules) -> float:
    restarts = Restarts(prepared.reset)
    with Monitor():
        return time_step(prepared.step, HostClock(), rules, Phases(), between=restarts).wall.median_s


def plain_s(step: Step, for_s: float) -> float:
    seconds: list[float] = []
    while sum(seconds) < for_s:
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def plain_resnet(batch: int) -> Step:
    model, images, labels = net().train(), torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def plain_ddpm(batch: int) -> Step:
    model = UNet().train()
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True)
    images, noise = torch.randn(batch, 3, 32, 32), torch.randn(batch, 3, 32, 32)
    times, (kept, added) = torch.randint(STEPS, (batch,)), schedule()

    def step() -> None:
        optimizer.zero_grad()
        noisy = kept[times, None, None, None] * images + added[times, None, None, None] * noise
        F.mse_loss(model(noisy, times), noise).backward()
        optimizer.step()
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 1 - DECAY)

    return step
