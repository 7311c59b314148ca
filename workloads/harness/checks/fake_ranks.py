"""One process of a group that has no others: DDP and FSDP as to memory, with nothing sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed import device_mesh, fsdp

SHARDING = "torch.distributed.fsdp._fully_shard._fully_shard"  # where torch asks for a mesh's device


@contextmanager
def one_of(processes: int, device: torch.device) -> Iterator[None]:
    """Be one of so many processes inside, which computes on `device`, under fake tensors.

    Torch's own `fully_shard` runs, with torch's backend that sends nothing and needs no other rank.
    """
    import torch.distributed as dist

    with suppress(ImportError):  # before torch 2.13 this is what tells shapes of collective operations
        import_module("torch.distributed._tools.fake_collectives")
    made: list[bool] = []
    real_mesh, real_shard = device_mesh.init_device_mesh, fsdp.fully_shard

    def mesh(kind: str, shape: tuple[int, ...], **options: Any) -> Any:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        with unset_fake_temporarily():  # which ranks there are is a matter of values
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
    """In place of DDP: the model, with one buffer for each gradient, which that becomes a view of."""

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            if parameter.requires_grad:
                _gather(parameter, torch.empty_like(parameter.detach()))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self.module(*args, **kwargs)

    no_sync = staticmethod(nullcontext)


def _gather(parameter: torch.nn.Parameter, buffer: torch.Tensor) -> None:
    def gathered(parameter: torch.Tensor) -> None:
        parameter.grad = buffer

    parameter.register_post_accumulate_grad_hook(gathered)  # type: ignore[no-untyped-call]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put `value` in an attribute's place inside, where there is one."""
    if not hasattr(owner, name):  # of another version of torch
        yield
        return
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
