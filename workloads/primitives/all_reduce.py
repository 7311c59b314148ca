"""The exchange of gradients alone: values that all processes combine, by NCCL or on CPUs by gloo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

if TYPE_CHECKING:
    import torch

SHOWN = 256


@workload(
    kib=(1, 64, 1024, 16_384, 262_144, 1_048_576),
    processes=(2, 4, 8),
    tiny={"kib": 1, "processes": 2},
    scaling="weak",
    elements=lambda kib, processes: 256 * kib,
)
def all_reduce(env: Env, kib: int, processes: int) -> Prepared:
    """Return the largest of all processes' values, in place: `kib` KiB of fp32.

    Bytes are those of the bus, 2 (n - 1) / n of all, as in NVIDIA/nccl-tests, doc/PERFORMANCE.md. It is not
    the sum, because a sum of sums would soon be infinite.
    """
    import torch
    import torch.distributed as dist

    from workloads.harness.group.distributed import gathered

    seeds = torch.randint(2**62, (processes,), generator=env.generator)
    own = torch.Generator().manual_seed(int(seeds[env.rank]))  # the others' values would take as much each
    values = env.to_device(torch.randn(256 * kib, generator=own))
    places = env.draw(256 * kib, SHOWN)
    buffer, size = values.clone(), 1024 * kib

    def step() -> torch.Tensor:
        dist.all_reduce(buffer, dist.ReduceOp.MAX)
        return buffer

    def reset() -> None:
        buffer.copy_(values)

    def reference() -> torch.Tensor:
        return torch.stack(gathered(values[places].cpu())).amax(0).double()

    return Prepared(
        step=step,
        inputs=(values,),
        reference=reference,
        view=lambda largest: largest[places],
        units=2 * (processes - 1) / processes * size,
        unit="bus bytes",
        flops=0,
        bytes=2 * size * processes,  # read and written, by each
        matmul_flops=0,
        reset=reset,
        learns=False,
    )
