"""A classifier of small pictures, in six ways, for any network."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from workloads.harness.engine.correctness import BOUNDS, FALLS_WITHIN
from workloads.harness.prepared import Env, Job, JobResult, Prepared
from workloads.harness.registry import LAYOUTS, Kind, Task, Workload, add, summary_of
from workloads.harness.training.layers import layer_flops, parameter_count
from workloads.harness.training.loading import Loader, exact_results, loaded_inference, loaded_training
from workloads.harness.training.optimizers import fused
from workloads.harness.training.training import SAMPLES, Learner, inference_step, training_step

if TYPE_CHECKING:
    import torch

Net = Callable[[], "torch.nn.Module"]
CLASSES = 10
LEARNING_RATE = 1e-3
CONTRAST = 2.0  # of the classes' squares, over the noise
EPOCH = 200  # batches in the data set, at most: longer jobs go through it again
WARM_UP = 3  # steps
TOLERANCE = 4.0  # roundings add up over the layers
FALLS_TO = 0.9  # of the loss at the beginning, in a job that trains
FEWEST = 3  # batches whose losses are averaged for it: of one, small ones differ by more than they fall


def train(env: Env, net: Net, batch: int) -> Prepared:
    inputs = tuple(env.place_exact(tensor) for tensor in pictures(env, batch))
    return training_step(
        env, env.model(net), loss, inputs, adam, unit="images", units=batch, tolerance=TOLERANCE
    )


def infer(env: Env, net: Net, batch: int) -> Prepared:
    images = env.place(pictures(env, batch)[0])
    return inference_step(env, env.model(net, env.dtype), images, unit="images", tolerance=TOLERANCE)


def train_loader(env: Env, net: Net, batch: int, workers: int) -> Prepared:
    loader = Loader(env, pictures(env, EPOCH * batch), batch, workers)
    return loaded_training(env, env.model(net), loss, loader, adam, unit="images", tolerance=TOLERANCE)


def infer_loader(env: Env, net: Net, batch: int, workers: int) -> Prepared:
    loader = Loader(env, (pictures(env, EPOCH * batch)[0].to(env.dtype),), batch, workers)
    return loaded_inference(env.model(net, env.dtype), loader, unit="images", tolerance=TOLERANCE)


def train_job(env: Env, net: Net, batch: int, epochs: int, batches: int, workers: int) -> Job:
    """Return training steps through the loader; the loss must fall to 90 %."""
    import torch

    loader = Loader(env, pictures(env, min(batches, EPOCH) * batch), batch, workers)
    learner, steps = Learner(env, env.model(net), adam), epochs * batches

    def step() -> torch.Tensor:
        taken = loader.take()
        return learner.learn(lambda: loss(learner.model, *taken))

    def run() -> JobResult:
        learner.reset()
        losses, step_s = _timed(loader, step, steps, kept=steps)
        values = torch.stack(losses).float().tolist()  # waits for the device
        tenth = max(steps // 10, min(FEWEST, steps))
        fallen_to = statistics.fmean(values[-tenth:]) / statistics.fmean(values[:tenth])
        target = FALLS_TO if steps >= FALLS_WITHIN else None
        name = "loss at the end over that at the beginning"
        return JobResult(tuple(values), name, fallen_to, target, higher_is_better=False, step_s=step_s)

    return _job(loader, learner.model, run, step, steps, training=True)


def infer_job(env: Env, net: Net, batch: int, batches: int, workers: int) -> Job:
    import torch

    images = pictures(env, min(batches, EPOCH) * batch)[0].to(env.dtype)
    loader = Loader(env, (images,), batch, workers)
    model = env.model(net, env.dtype).eval()
    epoch, position = divmod(batches - 1, loader.batches)
    exact = exact_results(model, loader.at(epoch, position)[0])

    def step() -> torch.Tensor:
        (taken,) = loader.take()
        with torch.inference_mode():
            result: torch.Tensor = model(taken)
            return result

    def run() -> JobResult:
        results, step_s = _timed(loader, step, batches, kept=1)
        last = results[-1][:SAMPLES].cpu().double()  # waits for the device
        error = float((last - exact).norm() / exact.norm())
        bound = BOUNDS[env.precision] * TOLERANCE
        name = "relative error of the last result"
        return JobResult((), name, error, bound, higher_is_better=False, step_s=step_s)

    return _job(loader, model, run, step, batches, training=False)


def pictures(env: Env, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    labels = torch.randint(CLASSES, (count,), generator=env.generator)
    squares = torch.randn(CLASSES, 3, 4, 4, generator=env.generator).mul_(CONTRAST)
    patterns = squares.repeat_interleave(8, 2).repeat_interleave(8, 3)
    return torch.randn(count, 3, 32, 32, generator=env.generator).add_(patterns[labels]), labels


def loss(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    from torch.nn import functional as F

    return F.cross_entropy(model(images), labels)


def adam(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    import torch

    return fused(torch.optim.Adam, parameters, lr=LEARNING_RATE)


def _timed(
    loader: Loader, step: Callable[[], torch.Tensor], steps: int, kept: int
) -> tuple[list[torch.Tensor], tuple[float, ...]]:
    results = deque[Any](maxlen=kept)
    ends = [time.perf_counter()]
    loader.restart(epoch=0)
    for _ in range(steps):
        results.append(step())
        ends.append(time.perf_counter())
    loader.stop()
    return list(results), tuple(end - start for start, end in pairwise(ends))


def _job(
    loader: Loader,
    model: torch.nn.Module,
    run: Callable[[], JobResult],
    step: Callable[[], torch.Tensor],
    steps: int,
    training: bool,
) -> Job:
    def warm_up() -> None:
        for _ in range(WARM_UP):
            step()
        loader.stop()

    per_step = layer_flops(model, loader.tensors[0][: loader.batch])[training]
    return Job(
        run=run,
        warm_up=warm_up,
        units=steps * loader.batch,
        unit="images",
        flops=steps * per_step,
        bytes=steps * loader.step_bytes(model, training),
        matmul_flops=steps * per_step,
        parameters=parameter_count(model),
    )


class Way(NamedTuple):
    """One of the six ways to measure a network."""

    name: str
    task: Task
    kind: Kind
    build: Callable[..., Prepared | Job]
    more: dict[str, tuple[int, ...]]


LOADED: dict[str, tuple[int, ...]] = {"workers": (0, 1, 2, 4)}
WHOLE: dict[str, tuple[int, ...]] = {"batches": (10, 50, 200), **LOADED}
TINY = {"batch": 8, "epochs": 1, "batches": 10, "workers": 0}
WAYS = (
    Way("train", "training", "step", train, {}),
    Way("train_loader", "training", "loader", train_loader, LOADED),
    Way("train_job", "training", "job", train_job, {"epochs": (1, 3), **WHOLE}),
    Way("infer", "inference", "step", infer, {}),
    Way("infer_loader", "inference", "loader", infer_loader, LOADED),
    Way("infer_job", "inference", "job", infer_job, WHOLE),
)


def register(
    name: str,
    module: str,
    net: Net,
    batch: tuple[int, ...],
    check: Callable[[int], None] = lambda batch: None,
) -> None:
    """Register the six workloads of a network, such as `NAME_train` and `NAME_infer_loader`.

    The first line of the network's `module` is their summary.
    """
    for way in WAYS:
        sizes = {"batch": batch, **way.more}
        alone = next(other.name for other in WAYS if (other.task, other.kind) == (way.task, "step"))
        add(
            Workload(
                f"{name}_{way.name}",
                summary_of(module),
                sizes,
                {size: TINY[size] for size in sizes},
                _builder(way, net, check),
                kind=way.kind,
                of=None if way.kind == "step" else f"{name}_{alone}",
                model=name,
                task=way.task,
                has_model=True,
                layouts=LAYOUTS[:1] if way.kind == "job" else LAYOUTS,
            )
        )


def _builder(way: Way, net: Net, check: Callable[[int], None]) -> Callable[..., Prepared | Job]:
    def build(env: Env, batch: int, **more: int) -> Prepared | Job:
        if way.task == "training":
            check(batch)
        return way.build(env, net, batch, **more)

    return build
