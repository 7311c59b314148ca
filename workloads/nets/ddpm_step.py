"""Training of a diffusion model on pictures of CIFAR-10's size, for several workloads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from workloads.harness.engine.device import UnsupportedError
from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import workload
from workloads.harness.training.data import CIFAR10, load_images, normalised

if TYPE_CHECKING:
    import torch

    from workloads.nets.unet import UNet

BATCH, PROCESSES, WORKERS = (1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 4, 8), (0, 1, 2, 4)
IMAGES = (64, 1024, CIFAR10.images)
# Base channels of the model: the paper's, and 76 of one of 12.6 million parameters.
PUBLISHED, CHANNELS, STRIDE = 128, (32, 64, 76, 128, 256), 4
WIDTH = {"channels": PUBLISHED}  # where it is not given
CHECKED = 2  # images whose loss and prediction are compared with float64
TOLERANCE = 10.0  # roundings add up over 70 convolutions


def parameters(channels: int = PUBLISHED) -> int:
    return 2178 * channels**2 + 484 * channels + 3


def image_flops(channels: int = PUBLISHED) -> float:
    return 2_214_424.0 * channels**2 + 8_146_944.0 * channels


def elements(channels: int = PUBLISHED, **others: int) -> float:
    """Return the numbers alive at a step's end: weights, gradients, Adam's moments, average."""
    return 5.0 * parameters(channels)


def flops(batch: int, processes: int = 1, channels: int = PUBLISHED, **others: int) -> float:
    """Return a step's FLOPs by all processes, each of which takes `batch` images."""
    return image_flops(channels) * batch * processes


def multiples(**size: int) -> dict[str, int]:
    return {"channels": STRIDE}


ddpm_workload = partial(
    workload, has_model=True, optional=WIDTH, elements=elements, flops=flops, multiples=multiples
)


def training_step(env: Env, batch: int, channels: int, in_group: bool) -> Prepared:
    import torch

    from workloads.harness.group.distributed import check_exchange
    from workloads.nets.diffusion import Trainer
    from workloads.nets.unet import STEPS

    check_precision(env)
    net, data = checked_net(env, channels), load_images(env, CIFAR10, batch)
    share = slice(env.rank, None, env.world)
    noise = torch.randn(*data.images.shape, generator=env.generator)
    times = torch.randint(STEPS, (batch,), generator=env.generator)
    inputs = tuple(env.place_exact(t[share]) for t in (normalised(CIFAR10, data.images), noise, times))
    trainer = Trainer(env, net, in_group)

    def reference() -> tuple[torch.Tensor, ...]:
        if in_group:
            check_exchange(net)
        return trainer.exact(*(t[:CHECKED] for t in inputs))

    step_flops = image_flops(channels) * batch
    moved = sum(t.numel() * t.element_size() for t in inputs)
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    return Prepared(
        step=lambda: trainer.step(*inputs),
        inputs=inputs,
        reference=reference,
        view=lambda losses: trainer.seen(losses, CHECKED),
        units=batch,
        unit="images",
        flops=step_flops,
        bytes=(moved + 2 * weights) * env.world,  # read once, written once, by each
        matmul_flops=step_flops,
        reset=trainer.reset,
        watched=trainer.learner.watched,
        tolerance=TOLERANCE,
        parameters=parameters(channels),
        data=data.source,
        unexchanged=trainer.unexchanged if in_group else None,
    )


def checked_net(env: Env, channels: int) -> UNet:
    from workloads.nets.unet import UNet

    if channels % STRIDE:
        raise WorkloadsError(
            f"channels={channels} must be a multiple of {STRIDE}, which the group norms need"
        )
    return env.model(lambda: UNet(channels))


def check_precision(env: Env) -> None:
    if env.precision == "fp16" and env.device.type == "cpu":
        raise UnsupportedError(
            "training this model in fp16 on a CPU takes a minute for each image: torch has no fast kernels "
            "for it; measure bf16 or fp32"
        )
