"""Training of a diffusion model on pictures of CIFAR-10's size, by one process."""

from __future__ import annotations

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import LAYOUTS
from workloads.harness.training.data import CIFAR10, load_images
from workloads.nets.ddpm_step import (
    BATCH,
    CHANNELS,
    CHECKED,
    PUBLISHED,
    TOLERANCE,
    WORKERS,
    check_precision,
    checked_net,
    ddpm_workload,
    image_flops,
    parameters,
    training_step,
)

EPOCH = 200  # batches in the data set of the loader, at most


@ddpm_workload(batch=BATCH, channels=CHANNELS, layouts=LAYOUTS, tiny={"batch": 1})
def ddpm(env: Env, batch: int, channels: int = PUBLISHED) -> Prepared:
    """Return a step on `batch` pictures, without DDP: the base of every scaling."""
    return training_step(env, batch, channels, in_group=False)


@ddpm_workload(
    kind="loader",
    of="ddpm",
    batch=BATCH,
    workers=WORKERS,
    channels=CHANNELS,
    layouts=LAYOUTS,
    tiny={"batch": 1, "workers": 0, "channels": 32},
)
def ddpm_loader(env: Env, batch: int, workers: int, channels: int = PUBLISHED) -> Prepared:
    """Return a step on the next `batch` pictures of a data loader, each normalised separately."""
    from workloads.nets.diffusion import LoadedSteps, loader_of

    check_precision(env)
    count = min(EPOCH, max(CIFAR10.images // batch, 1)) * batch
    net, data = checked_net(env, channels), load_images(env, CIFAR10, count)
    loader = loader_of(env, data.images, batch, workers)
    steps = LoadedSteps(env, net, loader)
    trainer, step_flops = steps.trainer, image_flops(channels) * batch
    return Prepared(
        step=steps.step,
        inputs=loader.tensors,
        reference=lambda: steps.exact(CHECKED),
        view=lambda losses: trainer.seen(losses, CHECKED),
        units=batch,
        unit="images",
        flops=step_flops,
        bytes=loader.step_bytes(net, training=True),
        matmul_flops=step_flops,
        reset=steps.reset,
        watched=trainer.learner.watched,
        tolerance=TOLERANCE,
        moves_inputs=True,
        parameters=parameters(channels),
        data=data.source,
    )
