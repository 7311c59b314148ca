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

BATCH, PROCESSES = (1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 4, 8)
IMAGES = (64, 1024, CIFAR10.images)
PARAMETERS, GFLOP = 35_746_307, 37.323931648  # counted: the model's, and a training step's for each image
CHECKED = 2  # images whose loss and prediction are held against float64
TOLERANCE = 10.0  # roundings add up over 70 convolutions


def _elements(batch: int, processes: int = 1) -> float:
    """Weights, gradients, Adam's two moments and the average: all alive at the end of a step."""
    return 5.0 * PARAMETERS


def _flops(batch: int, processes: int = 1) -> float:
    return GFLOP * 1e9 * batch * processes


@workload(batch=BATCH, tiny={"batch": 1}, layouts=LAYOUTS, elements=_elements, flops=_flops)
def ddpm(env: Env, batch: int) -> Prepared:
    """A step on `batch` pictures by this process alone, without DDP: the base of every scaling."""
    return _step(env, batch, in_group=False)


@workload(
    of="ddpm",
    scaling="weak",
    batch=BATCH,
    processes=PROCESSES,
    tiny={"batch": 1, "processes": 2},
    layouts=LAYOUTS,
    elements=_elements,
    flops=_flops,
)
def ddpm_weak(env: Env, batch: int, processes: int) -> Prepared:
    """A step on `batch` pictures for each process."""
    return _step(env, batch * processes, in_group=True)


@workload(
    of="ddpm",
    scaling="strong",
    batch=BATCH,
    processes=PROCESSES,
    tiny={"batch": 2, "processes": 2},
    layouts=LAYOUTS,
    elements=_elements,
    flops=lambda batch, processes: _flops(batch),
    multiples=lambda batch, processes: {"batch": processes},
)
def ddpm_strong(env: Env, batch: int, processes: int) -> Prepared:
    """A step on `batch` pictures by all processes together, which share them evenly."""
    if batch % processes:
        raise WorkloadsError(
            f"batch={batch} can't be shared evenly by processes={processes}; choose a multiple of {processes}"
        )
    return _step(env, batch, in_group=True)


@workload(
    kind="job",
    of="ddpm",
    scaling="weak",
    images=IMAGES,
    batch=BATCH,
    processes=PROCESSES,
    tiny={"images": 8, "batch": 1, "processes": 2},
    elements=lambda images, batch, processes: _elements(batch),
    flops=lambda images, batch, processes: _flops(batch) * (images // processes // batch) * processes,
)
def ddpm_job(env: Env, images: int, batch: int, processes: int) -> Job:
    """One epoch over `images` pictures, `batch` at a time in each process; what fills no batch is dropped."""
    from workloads.nets.diffusion import Epoch

    if not (steps := images // processes // batch):
        raise WorkloadsError(
            f"images={images} give none of processes={processes} a whole batch={batch}; "
            f"choose images of at least {processes * batch}"
        )
    _check_precision(env)
    net, data = _net(env), load_images(env, CIFAR10, images)
    epoch = Epoch(env, net, data.images, batch, steps)
    taken = steps * batch * processes
    return Job(
        run=epoch.run,
        warm_up=epoch.warm_up,
        units=taken,
        unit="images",
        flops=_image_flops(net) * taken,
        bytes=data.images[0].numel() * taken,
        matmul_flops=_image_flops(net) * taken,
        parameters=_parameters(net),
        data=data.source,
    )


def _step(env: Env, batch: int, in_group: bool) -> Prepared:
    """Steps on the same pictures, noise and times again and again, of which each rank takes its share."""
    import torch

    from workloads.harness.group.distributed import check_exchange
    from workloads.nets.diffusion import Trainer
    from workloads.nets.unet import STEPS

    _check_precision(env)
    net, data = _net(env), load_images(env, CIFAR10, batch)
    share = slice(env.rank, None, env.world)
    noise = torch.randn(*data.images.shape, generator=env.generator)
    times = torch.randint(STEPS, (batch,), generator=env.generator)
    inputs = tuple(env.place_exact(t[share]) for t in (normalised(CIFAR10, data.images), noise, times))
    trainer = Trainer(env, net, in_group)

    def reference() -> tuple[torch.Tensor, ...]:
        if in_group:
            check_exchange(net)
        return trainer.exact(*(t[:CHECKED] for t in inputs))

    flops = _image_flops(net) * batch
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
        parameters=_parameters(net),
        data=data.source,
        unexchanged=trainer.unexchanged if in_group else None,
    )


def _net(env: Env) -> UNet:
    from workloads.nets.unet import UNet

    return env.model(UNet)


def _check_precision(env: Env) -> None:
    if env.precision == "fp16" and env.device.type == "cpu":
        raise UnsupportedError(
            "training this model in fp16 on a CPU takes a minute for each image: torch has no fast kernels "
            "for it; measure bf16 or fp32"
        )


def _parameters(net: UNet) -> int:
    from workloads.harness.training.layers import parameter_count

    return parameter_count(net)


def _image_flops(net: UNet) -> float:
    """Operations of a training step for one image, in convolutions, linear layers and attention."""
    import torch

    from workloads.harness.training.layers import layer_flops
    from workloads.nets.unet import PIXELS

    sample = torch.zeros(1, 3, PIXELS, PIXELS), torch.zeros(1, dtype=torch.int64)
    return layer_flops(net, *sample)[1] + 3 * net.attention_flops()
