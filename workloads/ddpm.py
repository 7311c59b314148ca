"""Training of a diffusion model on pictures of CIFAR-10's size: by one process, or by several with DDP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.harness.engine.device import UnsupportedError
from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import LAYOUTS, workload
from workloads.harness.training.data import CIFAR10, load_images, normalised

if TYPE_CHECKING:
    import torch

    from workloads.nets.unet import UNet

BATCH, PROCESSES, WORKERS = (1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 4, 8), (0, 1, 2, 4)
IMAGES = (64, 1024, CIFAR10.images)
# Base channels of the model: the paper's, and 76 of one of 12.6 million parameters.
PUBLISHED, CHANNELS, STRIDE = 128, (32, 64, 76, 128, 256), 4
WIDTH = {"channels": PUBLISHED}  # where it is not given
EPOCH = 200  # batches in the data set of the loader, at most
CHECKED = 2  # images whose loss and prediction are held against float64
TOLERANCE = 10.0  # roundings add up over 70 convolutions


def parameters(channels: int = PUBLISHED) -> int:
    """Return the model's parameters: 35.7 million of the published width."""
    return 2178 * channels**2 + 484 * channels + 3


def image_flops(channels: int = PUBLISHED) -> float:
    """Return a training step's operations for one image: in convolutions, linear layers and attention."""
    return 2_214_424.0 * channels**2 + 8_146_944.0 * channels


def _elements(channels: int = PUBLISHED, **others: int) -> float:
    """Weights, gradients, Adam's two moments and the average: all alive at the end of a step."""
    return 5.0 * parameters(channels)


def _flops(batch: int, processes: int = 1, channels: int = PUBLISHED, **others: int) -> float:
    return image_flops(channels) * batch * processes


def _multiples(**size: int) -> dict[str, int]:
    return {"channels": STRIDE}


@workload(
    batch=BATCH,
    channels=CHANNELS,
    optional=WIDTH,
    tiny={"batch": 1},
    layouts=LAYOUTS,
    elements=_elements,
    flops=_flops,
    multiples=_multiples,
)
def ddpm(env: Env, batch: int, channels: int = PUBLISHED) -> Prepared:
    """A step on `batch` pictures by this process alone, without DDP: the base of every scaling."""
    return _step(env, batch, channels, in_group=False)


@workload(
    kind="loader",
    of="ddpm",
    batch=BATCH,
    workers=WORKERS,
    channels=CHANNELS,
    optional=WIDTH,
    tiny={"batch": 1, "workers": 0, "channels": 32},
    layouts=LAYOUTS,
    elements=_elements,
    flops=_flops,
    multiples=_multiples,
)
def ddpm_loader(env: Env, batch: int, workers: int, channels: int = PUBLISHED) -> Prepared:
    """A step on the next `batch` pictures of a data loader: by how much does that hold the training back?

    Each picture is made float32 and normalised by itself, as users' data sets do it, in `workers` processes.
    """
    from workloads.nets.diffusion import LoadedSteps, loader_of

    _check_precision(env)
    count = min(EPOCH, max(CIFAR10.images // batch, 1)) * batch
    net, data = _net(env, channels), load_images(env, CIFAR10, count)
    loader = loader_of(env, data.images, batch, workers)
    steps = LoadedSteps(env, net, loader)
    trainer, flops = steps.trainer, image_flops(channels) * batch
    return Prepared(
        step=steps.step,
        inputs=loader.tensors,
        reference=lambda: steps.exact(CHECKED),
        view=lambda losses: trainer.seen(losses, CHECKED),
        units=batch,
        unit="images",
        flops=flops,
        bytes=loader.step_bytes(net, training=True),
        matmul_flops=flops,
        reset=steps.reset,
        watched=trainer.learner.watched,
        tolerance=TOLERANCE,
        moves_inputs=True,
        parameters=parameters(channels),
        data=data.source,
    )


@workload(
    of="ddpm",
    scaling="weak",
    batch=BATCH,
    processes=PROCESSES,
    channels=CHANNELS,
    optional=WIDTH,
    tiny={"batch": 1, "processes": 2},
    layouts=LAYOUTS,
    elements=_elements,
    flops=_flops,
    multiples=_multiples,
)
def ddpm_weak(env: Env, batch: int, processes: int, channels: int = PUBLISHED) -> Prepared:
    """A step on `batch` pictures for each process."""
    return _step(env, batch * processes, channels, in_group=True)


@workload(
    of="ddpm",
    scaling="strong",
    batch=BATCH,
    processes=PROCESSES,
    channels=CHANNELS,
    optional=WIDTH,
    tiny={"batch": 2, "processes": 2},
    layouts=LAYOUTS,
    elements=_elements,
    flops=lambda batch, processes, channels=PUBLISHED: _flops(batch, channels=channels),
    multiples=lambda batch, processes, channels=PUBLISHED: {"batch": processes, "channels": STRIDE},
)
def ddpm_strong(env: Env, batch: int, processes: int, channels: int = PUBLISHED) -> Prepared:
    """A step on `batch` pictures by all processes together, which share them evenly."""
    if batch % processes:
        raise WorkloadsError(
            f"batch={batch} can't be shared evenly by processes={processes}; choose a multiple of {processes}"
        )
    return _step(env, batch, channels, in_group=True)


@workload(
    kind="job",
    of="ddpm",
    scaling="weak",
    images=IMAGES,
    batch=BATCH,
    processes=PROCESSES,
    workers=WORKERS,
    channels=CHANNELS,
    optional=WIDTH | {"workers": None},
    tiny={"images": 8, "batch": 1, "processes": 2},
    elements=_elements,
    flops=lambda images, batch, processes, **more: (
        _flops(batch, **more) * (images // processes // batch) * processes
    ),
    multiples=_multiples,
)
def ddpm_job(
    env: Env,
    images: int,
    batch: int,
    processes: int,
    workers: int | None = None,
    channels: int = PUBLISHED,
) -> Job:
    """One epoch over `images` pictures, `batch` at a time in each process; what fills no batch is dropped.

    With `workers` each process has its pictures from a data loader of so many; without, they are at hand.
    """
    from workloads.nets.diffusion import Epoch

    if not (steps := images // processes // batch):
        raise WorkloadsError(
            f"images={images} give none of processes={processes} a whole batch={batch}; "
            f"choose images of at least {processes * batch}"
        )
    _check_precision(env)
    net, data = _net(env, channels), load_images(env, CIFAR10, images)
    epoch = Epoch(env, net, data.images, batch, steps, workers)
    taken = steps * batch * processes
    flops = image_flops(channels) * taken
    return Job(
        run=epoch.run,
        warm_up=epoch.warm_up,
        units=taken,
        unit="images",
        flops=flops,
        bytes=data.images[0].numel() * taken,
        matmul_flops=flops,
        parameters=parameters(channels),
        data=data.source,
    )


def _step(env: Env, batch: int, channels: int, in_group: bool) -> Prepared:
    """Steps on the same pictures, noise and times again and again, of which each rank takes its share."""
    import torch

    from workloads.harness.group.distributed import check_exchange
    from workloads.nets.diffusion import Trainer
    from workloads.nets.unet import STEPS

    _check_precision(env)
    net, data = _net(env, channels), load_images(env, CIFAR10, batch)
    share = slice(env.rank, None, env.world)
    noise = torch.randn(*data.images.shape, generator=env.generator)
    times = torch.randint(STEPS, (batch,), generator=env.generator)
    inputs = tuple(env.place_exact(t[share]) for t in (normalised(CIFAR10, data.images), noise, times))
    trainer = Trainer(env, net, in_group)

    def reference() -> tuple[torch.Tensor, ...]:
        if in_group:
            check_exchange(net)
        return trainer.exact(*(t[:CHECKED] for t in inputs))

    flops = image_flops(channels) * batch
    moved = sum(t.numel() * t.element_size() for t in inputs)
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    return Prepared(
        step=lambda: trainer.step(*inputs),
        inputs=inputs,
        reference=reference,
        view=lambda losses: trainer.seen(losses, CHECKED),
        units=batch,
        unit="images",
        flops=flops,
        bytes=(moved + 2 * weights) * env.world,  # read once, written once, by each
        matmul_flops=flops,
        reset=trainer.reset,
        watched=trainer.learner.watched,
        tolerance=TOLERANCE,
        parameters=parameters(channels),
        data=data.source,
        unexchanged=trainer.unexchanged if in_group else None,
    )


def _net(env: Env, channels: int) -> UNet:
    from workloads.nets.unet import UNet

    if channels % STRIDE:
        raise WorkloadsError(
            f"channels={channels} don't make groups that the norms can take; choose a multiple of {STRIDE}"
        )
    return env.model(lambda: UNet(channels))


def _check_precision(env: Env) -> None:
    if env.precision == "fp16" and env.device.type == "cpu":
        raise UnsupportedError(
            "training this model in fp16 on a CPU takes a minute for each image: torch has no fast kernels "
            "for it; measure bf16 or fp32"
        )
