"""Train classifiers: a step, or a whole training to a test accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Job, JobResult, Prepared
from workloads.harness.training.data import ImageKind, Images, normalised
from workloads.harness.training.layers import layer_flops, parameter_bytes, parameter_count
from workloads.harness.training.training import Learner, Loss, training_step

if TYPE_CHECKING:
    import torch

TEST_BATCH = 1000  # images; in evaluation memory is the only reason for batches


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model and how it learns.

    Attributes:
        loss: `loss(model, inputs, labels)`, the mean over the batch.
        schedule: of the learning rate, by epoch; made for the optimizer.
    """

    build: Callable[[], torch.nn.Module]
    loss: Loss
    optimizer: Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer]
    schedule: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


def fresh(env: Env, recipe: Recipe, seed: int) -> tuple[Env, Learner]:
    import torch

    torch.manual_seed(seed)  # for dropout, which draws from torch's own generators
    env = replace(env, generator=torch.Generator().manual_seed(seed))
    return env, Learner(env, env.model(recipe.build), recipe.optimizer)


def numbers(losses: Sequence[torch.Tensor]) -> tuple[float, ...]:
    """Read losses from the device at once, without a wait for each step."""
    import torch

    return tuple(torch.stack(list(losses)).double().tolist())


def classifier_step(env: Env, recipe: Recipe, images: Images, tolerance: float = 1.0) -> Prepared:
    inputs = (env.place_exact(normalised(images.kind, images.images)), env.place_exact(images.labels))
    return training_step(
        env,
        env.model(recipe.build),
        recipe.loss,
        inputs,
        recipe.optimizer,
        unit="images",
        units=len(images.labels),
        tolerance=tolerance,
        data=images.source,
    )


@dataclass(frozen=True, slots=True)
class ClassifierFit:
    """A whole training over shuffled images, with a test after each epoch; images and labels as in `Images`."""

    env: Env
    recipe: Recipe
    kind: ImageKind
    epochs: int
    batch: int
    target: float | None
    seed: int
    images: torch.Tensor
    labels: torch.Tensor
    held_images: torch.Tensor
    held_labels: torch.Tensor

    def run(self) -> JobResult:
        import torch

        own, learner = fresh(self.env, self.recipe, self.seed)
        schedule, losses, count = self.recipe.schedule(learner.optimizer), [], len(self.labels)
        for _ in range(self.epochs):
            order = torch.randperm(count, generator=own.generator).to(self.env.device)
            starts = range(0, count, self.batch)
            losses += [self._learn(learner, order[start : start + self.batch]) for start in starts]
            recognised = self._recognised(learner.model)
            schedule.step()
        accuracy = int(recognised) / len(self.held_labels)
        return JobResult(numbers(losses), "test accuracy", accuracy, self.target)

    def warm_up(self) -> None:
        import torch

        _, learner = fresh(self.env, self.recipe, self.seed)
        count = len(self.labels)
        rows = torch.arange(count, device=self.env.device)
        for size in {min(self.batch, count), count % self.batch} - {0}:  # each size can have its own kernels
            self._learn(learner, rows[:size])
        int(self._recognised(learner.model))

    def _learn(self, learner: Learner, rows: torch.Tensor) -> torch.Tensor:
        inputs, labels = normalised(self.kind, self.images[rows]), self.labels[rows]
        return learner.learn(lambda: self.recipe.loss(learner.model, inputs, labels))

    def _recognised(self, model: torch.nn.Module) -> torch.Tensor:
        import torch

        model.eval()
        count = torch.zeros((), dtype=torch.int64, device=self.env.device)
        with torch.inference_mode(), self.env.autocast():
            for start in range(0, len(self.held_labels), TEST_BATCH):
                rows = slice(start, start + TEST_BATCH)
                scores = model(normalised(self.kind, self.held_images[rows]))
                count += (scores.argmax(1) == self.held_labels[rows]).sum()
        model.train()
        return count


def classifier_job(
    env: Env, recipe: Recipe, images: Images, epochs: int, batch: int, target: float | None
) -> Job:
    """Return a training over shuffled images; the remaining ones form a smaller last batch."""
    import torch

    seed = int(torch.randint(2**62, (1,), generator=env.generator))
    parts = (images.images, images.labels, images.held_images, images.held_labels)
    placed = [env.place_exact(part) for part in parts]
    fit = ClassifierFit(env, recipe, images.kind, epochs, batch, target, seed, *placed)
    pixels, labels, count, held = placed[0], placed[1], len(images.labels), len(images.held_labels)
    model = fresh(env, recipe, seed)[1].model
    forward, training = layer_flops(model, normalised(images.kind, pixels[:1]))
    flops = epochs * (count * training + held * forward)
    item = pixels[0].numel() * pixels.element_size() + labels.element_size()
    steps = epochs * -(-count // batch)
    return Job(
        run=fit.run,
        warm_up=fit.warm_up,
        units=epochs * count,
        unit="images",
        flops=flops,
        bytes=epochs * (count + held) * item + steps * 2 * parameter_bytes(model),
        matmul_flops=flops,
        parameters=parameter_count(model),
        data=images.source,
    )
