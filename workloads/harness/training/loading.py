"""Steps whose batch comes from a data loader on the host."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.harness.engine.device import UnsupportedError
from workloads.harness.prepared import Env, Prepared
from workloads.harness.probes.sockets import sockets_fault
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat.runs import PR_SET_PDEATHSIG
from workloads.harness.training.layers import copy_on, layer_flops, parameter_bytes, parameter_count
from workloads.harness.training.training import GRADIENTS, SAMPLES, Learner, Loss, Optimizer, as_exact

if TYPE_CHECKING:
    import torch

Batch = tuple["torch.Tensor", ...]
Ready = Callable[[Batch], Batch]
SHARED_MEMORY = Path("/dev/shm")  # through which loader processes hand over their batches
PREFETCHED = 2  # batches that each loader process keeps ready: torch's own default
MOST_WORKERS = 256  # a typing error must not fill the process table


class ReadySamples:
    """Rows of tensors, each transformed when it is read."""

    def __init__(self, tensors: Batch, ready: Ready) -> None:
        self._tensors, self._ready = tensors, ready

    def __len__(self) -> int:
        return len(self._tensors[0])

    def __getitem__(self, row: int) -> Batch:
        return self._ready(tuple(tensor[row] for tensor in self._tensors))


class Loader:
    """Shuffled batches by torch's DataLoader, moved to the device.

    An epoch's number determines its order, so that a reference knows each batch.

    Attributes:
        tensors: the data set; its rows are the samples.
        batch: rows in a batch; a divisor of the number of rows.
        epoch: of the last batch; -1 before the first.
    """

    def __init__(
        self, env: Env, tensors: Batch, batch: int, workers: int, ready: Ready | None = None
    ) -> None:
        """`workers` processes load in parallel; 0 loads in this process, on demand.

        `ready` transforms each sample; it must do the same to a whole batch.

        Raises:
            UnsupportedError: the processes' shared memory is too small, or their sockets cannot be made.
        """
        import torch
        from torch.utils.data import DataLoader, RandomSampler, TensorDataset

        self._ready: Ready = ready or (lambda rows: rows)
        self.tensors, self.batch, self.epoch = tensors, batch, -1
        _check_workers(workers, self._batch_bytes())
        self._device = env.device
        self._format = torch.channels_last if env.layout == "channels_last" else torch.contiguous_format
        self._seed = int(torch.randint(2**62, (1,), generator=env.generator))
        self._order = torch.Generator()
        rows: Any = ReadySamples(tensors, ready) if ready else TensorDataset(*tensors)
        self._loader = DataLoader(
            rows,
            batch,
            sampler=RandomSampler(rows, generator=self._order),
            num_workers=workers,
            pin_memory=env.device.type == "cuda",
            multiprocessing_context="fork" if workers else None,
            worker_init_fn=_end_with_parent if workers else None,
            prefetch_factor=PREFETCHED if workers else None,
        )
        self._batches: Any = iter(())
        self._place = -1

    @property
    def batches(self) -> int:
        return len(self._loader)

    def restart(self, epoch: int | None = None) -> None:
        self.stop()
        self.epoch, self._place = self.epoch + 1 if epoch is None else epoch, -1
        self._order.manual_seed(self._seed + self.epoch)
        self._batches = iter(self._loader)

    def stop(self) -> None:
        self._batches = iter(())

    def take(self) -> Batch:
        batch = next(self._batches, None)
        if batch is None:
            self.restart()
            batch = next(self._batches)
        self._place += 1
        return tuple(self._moved(tensor) for tensor in batch)

    def latest(self) -> Batch:
        return self.at(self.epoch, max(self._place, 0))

    def at(self, epoch: int, position: int) -> Batch:
        """Return an epoch's batch at a place from 0, on the host."""
        import torch

        generator = torch.Generator().manual_seed(self._seed + epoch)
        order = torch.randperm(len(self.tensors[0]), generator=generator)
        rows = order[position * self.batch : (position + 1) * self.batch]
        return self._ready(tuple(tensor[rows] for tensor in self.tensors))

    def step_bytes(self, model: torch.nn.Module, training: bool) -> int:
        """Return a step's compulsory traffic: batch, weights, and trained weights written."""
        return self._batch_bytes() + (1 + training) * parameter_bytes(model)

    def _batch_bytes(self) -> int:
        rows = self._ready(tuple(tensor[: self.batch] for tensor in self.tensors))
        return sum(tensor.numel() * tensor.element_size() for tensor in rows)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        moved: torch.Tensor = tensor.to(self._device, non_blocking=True)
        return moved.contiguous(memory_format=self._format) if moved.dim() == 4 else moved


def loaded_training(
    env: Env,
    model: torch.nn.Module,
    loss: Loss,
    loader: Loader,
    optimizer: Optimizer,
    *,
    unit: str,
    tolerance: float = 1.0,
) -> Prepared:
    learner = Learner(env, model, optimizer)

    def step() -> torch.Tensor:
        batch = loader.take()
        return learner.learn(lambda: loss(model, *batch))

    def reset() -> None:
        learner.reset()
        loader.restart()

    flops = layer_flops(model, loader.tensors[0][: loader.batch])[1]
    return Prepared(
        step=step,
        inputs=loader.tensors,
        reference=lambda: learner.reference(loss, loader.latest()),
        view=learner.shown,
        units=loader.batch,
        unit=unit,
        flops=flops,
        bytes=loader.step_bytes(model, training=True),
        matmul_flops=flops,
        reset=reset,
        watched=learner.watched,
        tolerance=tolerance * GRADIENTS[env.precision],
        moves_inputs=True,
        parameters=parameter_count(model),
    )


def loaded_inference(
    model: torch.nn.Module, loader: Loader, *, unit: str, tolerance: float = 1.0
) -> Prepared:
    import torch

    model.eval()

    def step() -> torch.Tensor:
        (batch,) = loader.take()
        with torch.inference_mode():
            result: torch.Tensor = model(batch)
            return result

    flops = layer_flops(model, loader.tensors[0][: loader.batch])[0]
    return Prepared(
        step=step,
        inputs=loader.tensors,
        reference=lambda: exact_results(model, loader.latest()[0]),
        view=lambda result: result[:SAMPLES],
        units=loader.batch,
        unit=unit,
        flops=flops,
        bytes=loader.step_bytes(model, training=False),
        matmul_flops=flops,
        reset=loader.restart,
        tolerance=tolerance,
        moves_inputs=True,
        parameters=parameter_count(model),
        learns=False,
    )


def exact_results(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    import torch

    with torch.inference_mode():
        exact: torch.Tensor = copy_on("cpu", model).double()(as_exact(batch[:SAMPLES]))
        return exact


def _check_workers(workers: int, batch_bytes: int) -> None:
    if workers > MOST_WORKERS:
        raise WorkloadsError(f"workers={workers} must be from 0 to {MOST_WORKERS}")
    if workers and (fault := sockets_fault()):
        raise UnsupportedError(fault)
    if workers:
        _check_semaphores()
    needed = (workers * PREFETCHED + 1) * batch_bytes if workers else 0
    with suppress(OSError):  # no such folder: torch then uses another way
        room = os.statvfs(SHARED_MEMORY)
        if needed > (left := room.f_bavail * room.f_frsize):
            raise UnsupportedError(
                f"workers={workers} needs {needed / 2**20:.1f} MiB of shared memory, but {SHARED_MEMORY} has "
                f"{left / 2**20:.1f}: enlarge it (docker run --shm-size) or use workers=0"
            )


def _check_semaphores() -> None:
    """Raise UnsupportedError without semaphores, as in a function service."""
    try:
        multiprocessing.Lock()
    except OSError as error:
        raise UnsupportedError(
            f"data loaders need semaphores in {SHARED_MEMORY}, which can't be made ({error.strerror}): "
            "mount a file system there that can be written, or use workers=0"
        ) from None


def _end_with_parent(worker: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
