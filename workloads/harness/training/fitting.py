"""Trainings of classifiers: a step on one batch, and the whole from fresh weights to a test accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Job, Outcome, Prepared
from workloads.harness.training.data import Images, normalised
from workloads.harness.training.layers import layer_flops, parameter_bytes, parameter_count
from workloads.harness.training.training import Learner, Loss, training_step

if TYPE_CHECKING:
    import torch

TEST_BATCH = 1000  # images; in evaluation memory is the only reason for batches


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model and how it learns.

    Attributes:
        build: the model, its weights drawn from torch's own generator.
        loss: `loss(model, inputs, labels)`, the mean over the batch.
        optimizer: made for the model's parameters.
        schedule: of the learning rate, by epoch; made for the optimizer.
    """

    build: Callable[[], torch.nn.Module]
    loss: Loss
    optimizer: Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer]
    schedule: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


def fresh(env: Env, recipe: Recipe, seed: int) -> tuple[Env, Learner]:
    """A model with the weights of a seed, and an environment whose further draws follow from it too."""
    import torch

    torch.manual_seed(seed)  # for dropout, which draws from torch's own generators
    env = replace(env, generator=torch.Generator().manual_seed(seed))
    return env, Learner(env, env.model(recipe.build), recipe.optimizer)


def numbers(losses: Sequence[torch.Tensor]) -> tuple[float, ...]:
    """Losses that were kept on the device, read all at once: reading each would wait for each step."""
    import torch

    return tuple(torch.stack(list(losses)).double().tolist())


def classifier_step(env: Env, recipe: Recipe, images: Images, tolerance: float = 1.0) -> Prepared:
    """Training steps on one batch of images that is in place; `tolerance` as in `training_step`."""
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


def classifier_job(
    env: Env, recipe: Recipe, images: Images, epochs: int, batch: int, target: float | None
) -> Job:
    """A training over shuffled images, with a test after each epoch; the last one's accuracy is the metric.

    The images that are left over for a smaller last batch are trained on too.
    """
    import torch

    seed = int(torch.randint(2**62, (1,), generator=env.generator))
    parts = (images.images, images.labels, images.held_images, images.held_labels)
    x, labels, held_x, held_labels = (env.place_exact(part) for part in parts)
    count, held, kind = len(labels), len(held_labels), images.kind

    def learn(learner: Learner, chosen: torch.Tensor) -> torch.Tensor:
        inputs, wanted = normalised(kind, x[chosen]), labels[chosen]
        return learner.learn(lambda: recipe.loss(learner.model, inputs, wanted))

    def right(model: torch.nn.Module) -> torch.Tensor:
        """Count the held-out images that are recognised, as a number on the device."""
        model.eval()
        found = torch.zeros((), dtype=torch.int64, device=env.device)
        with torch.inference_mode(), env.autocast():
            for start in range(0, held, TEST_BATCH):
                some = slice(start, start + TEST_BATCH)
                found += (model(normalised(kind, held_x[some])).argmax(1) == held_labels[some]).sum()
        model.train()
        return found

    def run() -> Outcome:
        own, learner = fresh(env, recipe, seed)
        schedule, losses = recipe.schedule(learner.optimizer), []
        for _ in range(epochs):
            order = torch.randperm(count, generator=own.generator).to(env.device)
            losses += [learn(learner, order[start : start + batch]) for start in range(0, count, batch)]
            recognised = right(learner.model)
            schedule.step()
        return Outcome(numbers(losses), "test accuracy", int(recognised) / held, target)

    def warm_up() -> None:
        _, learner = fresh(env, recipe, seed)
        places = torch.arange(count, device=env.device)
        for size in {min(batch, count), count % batch} - {0}:  # a device chooses its way for each size apart
            learn(learner, places[:size])
        int(right(learner.model))

    _, learner = fresh(env, recipe, seed)
    forward, training = layer_flops(learner.model, normalised(kind, x[:1]))
    flops = epochs * (count * training + held * forward)
    item = x[0].numel() * x.element_size() + labels.element_size()
    steps = epochs * -(-count // batch)
    return Job(
        run=run,
        warm_up=warm_up,
        units=epochs * count,
        unit="images",
        flops=flops,
        bytes=epochs * (count + held) * item + steps * 2 * parameter_bytes(learner.model),
        matmul_flops=flops,
        parameters=parameter_count(learner.model),
        data=images.source,
    )
