"""Training of a diffusion model on pictures of CIFAR-10's size, by several processes with DDP."""

from __future__ import annotations

from functools import partial

from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import LAYOUTS
from workloads.harness.training.data import CIFAR10, load_images
from workloads.nets.ddpm_step import (
    BATCH,
    CHANNELS,
    IMAGES,
    PROCESSES,
    PUBLISHED,
    STRIDE,
    WIDTH,
    WORKERS,
    check_precision,
    checked_net,
    ddpm_workload,
    flops,
    image_flops,
    parameters,
    training_step,
)

of_ddpm = partial(ddpm_workload, of="ddpm")


@of_ddpm(
    scaling="weak",
    batch=BATCH,
    processes=PROCESSES,
    channels=CHANNELS,
    tiny={"batch": 1, "processes": 2},
    layouts=LAYOUTS,
)
def ddpm_weak(env: Env, batch: int, processes: int, channels: int = PUBLISHED) -> Prepared:
    return training_step(env, batch * processes, channels, in_group=True)


@of_ddpm(
    scaling="strong",
    batch=BATCH,
    processes=PROCESSES,
    channels=CHANNELS,
    tiny={"batch": 2, "processes": 2},
    layouts=LAYOUTS,
    flops=lambda batch, processes, channels=PUBLISHED: flops(batch, channels=channels),
    multiples=lambda batch, processes, channels=PUBLISHED: {"batch": processes, "channels": STRIDE},
)
def ddpm_strong(env: Env, batch: int, processes: int, channels: int = PUBLISHED) -> Prepared:
    if batch % processes:
        raise WorkloadsError(
            f"batch={batch} can't be divided by processes={processes}; choose a multiple of {processes}"
        )
    return training_step(env, batch, channels, in_group=True)


@of_ddpm(
    kind="job",
    scaling="weak",
    images=IMAGES,
    batch=BATCH,
    processes=PROCESSES,
    workers=WORKERS,
    channels=CHANNELS,
    optional=WIDTH | {"workers": None},
    tiny={"images": 8, "batch": 1, "processes": 2},
    flops=lambda images, batch, processes, **more: (
        flops(batch, **more) * (images // processes // batch) * processes
    ),
)
def ddpm_job(
    env: Env,
    images: int,
    batch: int,
    processes: int,
    workers: int | None = None,
    channels: int = PUBLISHED,
) -> Job:
    """Return one epoch over `images` pictures, without an incomplete batch; without `workers` from memory."""
    from workloads.nets.diffusion import Epoch

    if not (steps := images // processes // batch):
        raise WorkloadsError(
            f"images={images} is less than one batch={batch} for each of processes={processes}; "
            f"choose at least {processes * batch}"
        )
    check_precision(env)
    net, data = checked_net(env, channels), load_images(env, CIFAR10, images)
    epoch = Epoch(env, net, data.images, batch, steps, workers)
    taken = steps * batch * processes
    taken_flops = image_flops(channels) * taken
    return Job(
        run=epoch.run,
        warm_up=epoch.warm_up,
        units=taken,
        unit="images",
        flops=taken_flops,
        bytes=data.images[0].numel() * taken,
        matmul_flops=taken_flops,
        parameters=parameters(channels),
        data=data.source,
    )
