"""Training a network to predict noise in images: a step, and an epoch.

The settings are those of Ho, Jain and Abbeel, 2020 (https://arxiv.org/abs/2006.11239), section 4 and appendix B:
1000 times, variances that grow evenly from 1e-4 to 0.02, squared error of the noise, Adam with 2e-4, an average of
the weights with decay 0.9999, horizontal flips.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from workloads.harness.engine.correctness import FALLS_WITHIN
from workloads.harness.group.distributed import gathered, mean_over_ranks, replicated, slowest
from workloads.harness.group.ranks import stepped
from workloads.harness.prepared import Env, JobResult
from workloads.harness.training.data import CIFAR10, normalised
from workloads.harness.training.loading import Batch, Loader
from workloads.harness.training.training import Learner, as_exact
from workloads.nets.unet import STEPS

if TYPE_CHECKING:
    import torch


FIRST_VARIANCE, LAST_VARIANCE = 1e-4, 0.02
LEARNING_RATE = 2e-4
DECAY = 0.9999  # of the average of the weights
LAST = 0.25  # share of a job's losses that its result is the mean of
WARM_UP = 2  # steps


def schedule() -> torch.Tensor:
    """Return the shares of image and noise at each time: float32, [2, 1000]."""
    kept = (1 - torch.linspace(FIRST_VARIANCE, LAST_VARIANCE, STEPS, dtype=torch.float64)).cumprod(0)
    return torch.stack([kept.sqrt(), (1 - kept).sqrt()]).float()


def losses(
    net: Callable[..., torch.Tensor],
    amounts: torch.Tensor,
    images: torch.Tensor,
    noise: torch.Tensor,
    times: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each image's mean squared error [n], and the predicted noise."""
    kept, added = amounts[:, times, None, None, None]
    predicted = net(kept * images + added * noise, times)
    return (noise - predicted).square().flatten(1).mean(1), predicted


class Trainer:
    """The network with its optimizer, average and replica."""

    def __init__(self, env: Env, net: nn.Module, in_group: bool) -> None:
        self.average = copy.deepcopy(net).requires_grad_(False)
        self.learner = Learner(env, net, _adam, [self.average])
        self._net: Any = replicated(env, net) if in_group else net
        self._amounts = schedule().to(env.device)
        self._predicted = torch.empty(0)
        self._averaged: list[torch.Tensor] = list(self.average.parameters())
        self._learnt: list[torch.Tensor] = list(net.parameters())

    def step(self, *inputs: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []

        def loss() -> torch.Tensor:
            parts[:] = losses(self._net, self._amounts, *inputs)
            return parts[0].mean()

        self.learner.learn(loss)
        with torch.no_grad():
            torch._foreach_lerp_(self._averaged, self._learnt, 1 - DECAY)
        self._predicted = parts[1].detach()
        return parts[0].detach()

    def seen(self, losses: torch.Tensor, images: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the last step's losses and predictions of its first images."""
        self.learner.check_changed()
        return losses[:images], self._predicted[:images]

    def exact(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `seen` in float64 from the beginning, by the watched step's first images."""
        with torch.no_grad():
            return losses(self.learner.exact(), as_exact(self._amounts), *map(as_exact, inputs))

    def reset(self) -> None:
        self.learner.reset()

    def unexchanged(self) -> AbstractContextManager[Any]:
        return self._net.no_sync() if hasattr(self._net, "no_sync") else nullcontext()


class LoadedSteps:
    """Steps on a loader's images, with flips, noise and times drawn on the device."""

    def __init__(self, env: Env, net: nn.Module, loader: Loader) -> None:
        self.trainer, self._loader = Trainer(env, net, in_group=False), loader
        self._seed = int(torch.randint(2**62, (1,), generator=env.generator))
        self._generator = torch.Generator(env.device)
        self._drawn: Batch = ()

    def step(self) -> torch.Tensor:
        (images,) = self._loader.take()
        self._drawn = drawn(images, self._generator)
        return self.trainer.step(flipped(images, self._drawn[0]), *self._drawn[1:])

    def exact(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        flips, noise, times = (tensor[:count].cpu() for tensor in self._drawn)
        (images,) = self._loader.latest()
        return self.trainer.exact(flipped(images[:count], flips), noise, times)

    def reset(self) -> None:
        self.trainer.reset()
        self._loader.restart()
        self._generator.manual_seed(self._seed)


class Epoch:
    """One pass over a rank's share of images, in random order."""

    def __init__(
        self,
        env: Env,
        net: nn.Module,
        images: torch.Tensor,
        batch: int,
        steps: int,
        workers: int | None = None,
    ) -> None:
        """Take bytes [n, 3, side, side] on the host, and `steps` batches for each rank."""
        self._env, self._batch, self._steps = env, batch, steps
        self._trainer = Trainer(env, net, in_group=True)
        order = torch.randperm(len(images), generator=env.generator)
        self._images = images[order[env.rank :: env.world][: batch * steps]]
        self._seed = int(torch.randint(2**62, (1,), generator=env.generator)) + env.rank
        self._loader = None if workers is None else loader_of(env, self._images, batch, workers)
        if self._loader is None and env.device.type == "cuda":
            self._images = self._images.pin_memory()

    def warm_up(self) -> None:
        self._train(min(WARM_UP, self._steps))

    def run(self) -> JobResult:
        step_losses, trace = self._train(self._steps)
        means = mean_over_ranks(step_losses).tolist()
        late = statistics.fmean(means[-max(int(LAST * len(means)), 1) :])
        return JobResult(
            losses=tuple(means),
            metric="mean loss of the last quarter",
            value=late,
            target=means[0] if len(means) >= FALLS_WITHIN else None,
            higher_is_better=False,
            step_s=trace.step_s(),
            memory=trace.memory(),
        )

    def _train(self, steps: int) -> tuple[torch.Tensor, Trace]:
        env, step_losses = self._env, torch.empty(steps, device=self._env.device)
        self._trainer.reset()
        generator = torch.Generator(env.device).manual_seed(self._seed)
        torch.manual_seed(self._seed)  # dropout
        trace = Trace(env.device, steps)
        if self._loader:
            self._loader.restart(epoch=0)
        for step in range(steps):
            images = self._batch_of(step)
            flips, noise, times = drawn(images, generator)
            step_losses[step] = self._trainer.step(flipped(images, flips), noise, times).mean()
            trace.step_ended()
            stepped()
        if self._loader:
            self._loader.stop()
        return step_losses, trace

    def _batch_of(self, step: int) -> torch.Tensor:
        if self._loader:
            return self._loader.take()[0]
        rows = self._images[step * self._batch : (step + 1) * self._batch]
        return normalised(CIFAR10, rows.to(self._env.device, non_blocking=True))


def loader_of(env: Env, images: torch.Tensor, batch: int, workers: int) -> Loader:
    return Loader(env, (images,), batch, workers, lambda rows: (normalised(CIFAR10, rows[0]),))


def drawn(images: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Draw each image's flip [n, 1, 1, 1], noise and time [n] on the device."""
    count, device = len(images), images.device
    flips = torch.rand(count, 1, 1, 1, generator=generator, device=device) < 0.5
    noise = torch.empty_like(images).normal_(generator=generator)
    return flips, noise, torch.randint(STEPS, (count,), generator=generator, device=device)


def flipped(images: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
    return torch.where(flips, images.flip(3), images)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, LEARNING_RATE, fused=True)


class Trace:
    """Every step's time, without waits for the device, and ranks' memory at some."""

    def __init__(self, device: torch.device, steps: int, every: int = 50) -> None:
        self._device, self._steps, self._every = device, steps, every
        self._marks: list[Any] = [self._mark()]
        self._memory: list[tuple[int, int, int, int, int]] = []

    def step_ended(self) -> None:
        self._marks.append(self._mark())
        step = len(self._marks) - 1
        if step % self._every == 0 or step == self._steps:
            import torch.distributed as dist

            self._memory.append((step, dist.get_rank(), *_held_bytes(self._device)))

    def step_s(self) -> tuple[float, ...]:
        """Return each step's seconds on its slowest rank, by the device's clock."""
        if self._device.type == "cuda":
            self._marks[-1].synchronize()
            pairs = zip(self._marks, self._marks[1:], strict=False)
            return tuple(slowest([a.elapsed_time(b) / 1e3 for a, b in pairs]))
        return tuple(slowest([b - a for a, b in zip(self._marks, self._marks[1:], strict=False)]))

    def memory(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Return rows of step, rank, and bytes allocated, reserved and at the peak."""
        return tuple(sorted(row for rows in gathered(self._memory) for row in rows))

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _held_bytes(device: torch.device) -> tuple[int, int, int]:
    if device.type != "cuda":
        import psutil

        from workloads.harness.probes.memory import peak_rss_bytes

        now = int(psutil.Process().memory_info().rss)
        return now, now, peak_rss_bytes()
    import torch

    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_allocated()
