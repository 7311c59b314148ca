"""Compute without values by torch's fake tensors, to count the live bytes at each moment.

Torch's private `torch.distributed._tools.mem_tracker` misses work while modes are switched off, and the
memory that kernels take.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import deepcopy
from importlib import import_module
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.distributed import device_mesh, fsdp
from torch.utils._pytree import tree_leaves

from workloads.harness.checks.heap import Heap
from workloads.harness.checks.segments import Segments
from workloads.harness.engine.count import ATTENTION, attention, attention_backward

HOST_DEVICE = torch.device("cpu")
HOST = str(HOST_DEVICE)
ODDS = 1.05  # times the heap: unknown memory of kernels, and Python's objects
FOUND_INF = "_amp_foreach_non_finite_check_and_unscale_"
SHARDING = "torch.distributed.fsdp._fully_shard._fully_shard"  # where torch asks for a mesh's device
# Seen in torch 2.13 on x86-64: resident memory before and after a model's first use.
META_BYTES = 83 * 2**20  # modules of Python that come with the first tensor on `meta`, as for counting FLOPs
ONEDNN_BYTES = 32 * 2**20  # code that oneDNN makes for convolutions each way, and the scratch that it keeps
# On a GPU, cuDNN's search for the fastest convolution tries algorithms with large scratch memory, in two layouts. The
# allocator keeps it: an H100 had 1.94 times the blocks of tensors and columns for a DDPM, 1.3 times for a small ResNet.
SEARCHED = 2


class Fakes(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Makes tensors without data, and counts their bytes: `live` and `tensors`, the peak.

    A value that the program asks for is 0, 1.0 or False. With `is_host_gpu` the host's tensors count as a
    GPU's: a program that sees no GPU has all of them there.
    """

    def __init__(self, is_host_gpu: bool = False) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self._is_host_gpu = is_host_gpu
        self.live: Counter[str] = Counter()
        self.tensors: Counter[str] = Counter()
        self._heap, self._segments = Heap(), Segments()
        self._is_searched = False
        self._libraries: dict[str, int] = {}
        self._storages: set[int] = set()
        self._zeros: set[int] = set()
        self._depth = 0
        self._moved_bytes = self._host_attention_flops = 0.0

    def moved(self) -> tuple[float, float]:
        """Return bytes moved since the last call, and the FLOPs of a CPU's attention."""
        moved = self._moved_bytes, self._host_attention_flops
        self._moved_bytes = self._host_attention_flops = 0.0
        return moved

    def peak_bytes(self, device: torch.device) -> int:
        """Return a process's peak on a device, from its first tensor on, with allocators and libraries."""
        if self._is_gpu(device):
            return self._segments.peak * (SEARCHED if self._is_searched else 1)
        return round(ODDS * self._heap.peak) + sum(self._libraries.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note an operation's tensors; answer requests for values.

        The parts of an operation with shapes new to torch come here too: no kernel makes those.
        """
        self._depth += 1
        try:
            out = super().__torch_dispatch__(func, types, args, kwargs or {})
        except DataDependentOutputException:
            return self._value(func.overloadpacket.__name__, args)
        finally:
            self._depth -= 1
        if not self._depth:
            self._note(func, args, out)
            self._count(func, args, kwargs, out)
        return out

    def _value(self, name: str, args: Any) -> Any:
        if name == "_local_scalar_dense":
            kind = args[0].dtype
            if kind.is_floating_point:  # counts are divided by; after an overflow no optimizer would step
                return 0.0 if args[0].untyped_storage()._cdata in self._zeros else 1.0
            return False if kind == torch.bool else 0
        if name in ("equal", "allclose"):  # weights have changed, and ranks agree
            return name == "allclose"
        raise NotImplementedError(f"{name} depends on values")

    def _note(self, func: Any, args: Any, out: Any) -> None:
        name = func.overloadpacket.__name__
        if name == FOUND_INF:
            self._zeros.add(args[1].untyped_storage()._cdata)
        made = [tensor for tensor in tree_leaves(out) if isinstance(tensor, FakeTensor)]
        self._libraries |= libraries_bytes(name, made)
        made = [tensor for tensor in made if tensor.device.type != "meta"]
        for tensor in made:
            self._keep(tensor)
        if made and (taken := workspace_bytes(name, args, made, self._is_gpu(made[0].device))):
            memory = self._memory(made[0].device)
            memory.give(memory.take(taken))
            self._is_searched |= self._is_gpu(made[0].device)

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        if func.is_view:
            return
        tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, FakeTensor)]
        self._moved_bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        name = func.overloadpacket.__name__
        if name.startswith(ATTENTION) and "_for_cpu" in name:  # which torch has no formula for
            formula = attention_backward if name.endswith("_backward") else attention
            self._host_attention_flops += formula(*args)

    def _keep(self, tensor: FakeTensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._storages:
            return
        kind, size = str(tensor.device), storage.nbytes()
        self._storages.add(key)
        self.live[kind] += size
        self.tensors[kind] = max(self.tensors[kind], self.live[kind])
        memory = self._memory(tensor.device)
        weakref.finalize(storage, self._free, key, kind, size, memory, memory.take(size))

    def _free(self, key: int, kind: str, size: int, memory: Any, block: Any) -> None:
        self._storages.discard(key)
        self._zeros.discard(key)
        self.live[kind] -= size
        memory.give(block)

    def _is_gpu(self, device: torch.device) -> bool:
        return self._is_host_gpu or device != HOST_DEVICE

    def _memory(self, device: torch.device) -> Any:
        return self._segments if self._is_gpu(device) else self._heap


@contextmanager
def faked(
    processes: int = 1, device: torch.device = HOST_DEVICE, is_host_gpu: bool = False
) -> Iterator[Fakes]:
    """Compute without values inside, on `device` as one of `processes`, in isolation.

    Modules move by a plain `_apply`, because torch's own refuses some fake tensors.
    """
    with (
        replaced(torch.nn.Module, "_apply", _apply),
        replaced(FakeTensor, "tolist", _zeros),
        one_of(processes, device),
        Fakes(is_host_gpu) as fakes,
    ):
        yield fakes


def _apply(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
    for child in module.children() if recurse else ():
        child._apply(function)
    for name, parameter in module._parameters.items():
        if parameter is None:
            continue
        with torch.no_grad():
            moved = function(parameter)
        if moved is not parameter:
            module._parameters[name] = torch.nn.Parameter(moved, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module


def _zeros(tensor: Any) -> Any:
    zeros: Any = 0.0 if tensor.dtype.is_floating_point else 0
    for length in reversed(tensor.shape):
        zeros = [deepcopy(zeros) for _ in range(length)]
    return zeros


@contextmanager
def one_of(processes: int, device: torch.device) -> Iterator[None]:
    """Act inside as one rank of `processes`, with torch's backend `fake`, which sends nothing."""
    import torch.distributed as dist

    with suppress(ImportError):  # before torch 2.13 this knows the shapes of collective operations
        import_module("torch.distributed._tools.fake_collectives")
    made: list[bool] = []
    real_mesh, real_shard = device_mesh.init_device_mesh, fsdp.fully_shard

    def mesh(kind: str, shape: tuple[int, ...], **options: Any) -> Any:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        with unset_fake_temporarily():  # the ranks are real values
            if not dist.is_initialized():
                dist.init_process_group("fake", rank=0, world_size=processes, store=FakeStore())
                made.append(True)
            return real_mesh(kind, shape, **options)

    def shard(module: Any, **options: Any) -> Any:
        from torch.distributed.tensor import DTensor

        module._apply(lambda t: t if isinstance(t, DTensor) else t.to(device))  # torch: .data =
        return real_shard(module, **options)

    with ExitStack() as stack:
        for owner, name, value in (
            (torch.nn.parallel, "DistributedDataParallel", Replica),
            (dist, "all_reduce", lambda *args, **kwargs: None),
            (dist, "get_world_size", lambda *args, **kwargs: processes),
            (device_mesh, "init_device_mesh", mesh),
            (fsdp, "fully_shard", shard),
            (import_module(SHARDING), "_get_device_from_mesh", lambda mesh: device),
        ):
            stack.enter_context(replaced(owner, name, value))
        try:
            yield
        finally:
            if made:
                dist.destroy_process_group()


class Replica(torch.nn.Module):
    """Replacement of DDP, whose gradients become views of buffers."""

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            if parameter.requires_grad:
                _gather(parameter, torch.empty_like(parameter.detach()))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    no_sync = staticmethod(nullcontext)


def _gather(parameter: torch.nn.Parameter, buffer: torch.Tensor) -> None:
    def gathered(parameter: torch.Tensor) -> None:
        parameter.grad = buffer

    parameter.register_post_accumulate_grad_hook(gathered)  # type: ignore[no-untyped-call]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    if not hasattr(owner, name):
        yield
        return
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def workspace_bytes(name: str, args: Any, made: Sequence[torch.Tensor], is_gpu: bool = False) -> int:
    """Return the bytes that an operation takes while it runs; 0 except for convolutions."""
    if name == "convolution":
        return _convolution(args[0], args[1], made[0], is_gpu)
    if name == "convolution_backward":
        return _convolution(args[1], args[2], args[0], is_gpu)
    return 0


def libraries_bytes(name: str, made: Sequence[torch.Tensor]) -> dict[str, int]:
    """Return the bytes that stay allocated after an operation, once for each cause."""
    if any(tensor.device.type == "meta" for tensor in made):
        return {"meta": META_BYTES}
    if name.startswith("convolution") and made[0].device == HOST_DEVICE and made[0].dtype != torch.float64:
        return {name: ONEDNN_BYTES}
    return {}


def _convolution(images: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, is_gpu: bool) -> int:
    if images.dtype != torch.float64 and not is_gpu:
        return sum(t.numel() * t.element_size() for t in (images, weight, out))
    columns = weight[0].numel() * math.prod(out.shape[2:]) * out.shape[0]
    is_pointwise = math.prod(weight.shape[2:]) == 1 and images.shape[2:] == out.shape[2:]
    return 0 if is_pointwise else columns * images.element_size()
