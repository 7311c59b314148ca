"""Computing without values or memory: which tensors are alive at each moment, by torch's fake tensors.

Torch has `torch.distributed._tools.mem_tracker` for this, which is private, misses what happens while modes
are switched off, and knows nothing of what kernels take beside their results.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from workloads.harness.checks.fake_ranks import one_of, replaced
from workloads.harness.checks.heap import Block, Heap
from workloads.harness.checks.workspace import HOST_DEVICE, libraries_bytes, workspace_bytes

HOST = str(HOST_DEVICE)
ODDS = 1.05  # of the heap: what kernels take that is not known, and objects of Python's
FOUND_INF = "_amp_foreach_non_finite_check_and_unscale_"


class Fakes(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Makes tensors that hold nothing, and adds up what they would.

    A value that the program asks for is 0, 1.0 or False, as if everything went well.

    Attributes:
        live: bytes that are alive, by device.
        tensors: their maximum.
    """

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.live: Counter[str] = Counter()
        self.tensors: Counter[str] = Counter()
        self._heap = Heap()
        self._libraries: dict[str, int] = {}
        self._storages: set[int] = set()
        self._zeros: set[int] = set()
        self._depth = 0

    def peak_bytes(self, device: torch.device) -> int:
        """Return what a process takes on a device at the peak beside what it has without any tensor.

        On the host this is what its heap had, with what torch and its libraries load once they are needed.
        """
        if device != HOST_DEVICE:
            return self.tensors[str(device)]
        return round(ODDS * self._heap.peak) + sum(self._libraries.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note what an operation makes; answer what can't be known without values.

        The parts of one whose shapes torch has not met before come here, too: no kernel makes those.
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
        if made and (taken := workspace_bytes(name, args, made)):
            self._heap.give(self._heap.take(taken))

    def _keep(self, tensor: FakeTensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._storages:
            return
        kind, size = str(tensor.device), storage.nbytes()
        self._storages.add(key)
        self.live[kind] += size
        self.tensors[kind] = max(self.tensors[kind], self.live[kind])
        block = self._heap.take(size) if kind == HOST else None
        weakref.finalize(storage, self._free, key, kind, size, block)

    def _free(self, key: int, kind: str, size: int, block: Block | None) -> None:
        self._storages.discard(key)
        self._zeros.discard(key)
        self.live[kind] -= size
        if block:
            self._heap.give(block)


@contextmanager
def faked(processes: int = 1, device: torch.device = HOST_DEVICE) -> Iterator[Fakes]:
    """Compute without values inside, on `device` as one of so many processes; nothing is sent to the others.

    Modules move in their plain way, because torch's way for fake tensors refuses some that were looked at.
    """
    fakes = Fakes()
    with ExitStack() as stack:
        for owner, name, value in (
            (torch.nn.Module, "_apply", _apply),
            (FakeTensor, "tolist", _numbers),
        ):
            stack.enter_context(replaced(owner, name, value))
        stack.enter_context(one_of(processes, device))
        stack.enter_context(fakes)
        yield fakes


def _apply(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
    """`torch.nn.Module._apply`, where what is moved replaces what was there."""
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


def _numbers(tensor: Any) -> Any:
    """Return a list of zeros of a tensor's shape."""

    def zeros(shape: tuple[int, ...]) -> Any:
        if not shape:
            return 0.0 if tensor.dtype.is_floating_point else 0
        return [zeros(shape[1:]) for _ in range(shape[0])] if len(shape) > 1 else [zeros(())] * shape[0]

    return zeros(tuple(tensor.shape))
