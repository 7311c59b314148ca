"""Copying and reading the device's memory: the bandwidth roofs, from four times the last-level cache on."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

ROW = 2**18  # elements of fp32: 1 MiB
SHOWN = 4  # rows that are checked


@workload(mib=(1, 4, 16, 64, 256, 1024, 4096), tiny={"mib": 1})
def memory_bandwidth(env: Env, mib: int) -> Prepared:
    """Copy `mib` MiB into another buffer of the device, fp32 in every precision.

    Under four times the last-level cache the step measures the cache, and `ceilings` labels it so. A CPU that
    reads a line before it overwrites it moves up to half as many bytes again, which do not count.
    """
    import torch

    source = env.rand(mib, ROW, dtype=torch.float32)
    target = torch.empty_like(source)  # made once: a fresh buffer would be timed with its page faults
    rows = env.draw(mib, SHOWN)
    size = source.numel() * source.element_size()
    return Prepared(
        step=lambda: target.copy_(source),
        inputs=(source,),
        reference=lambda: source[rows].cpu().double(),
        view=lambda copy: copy[rows],
        units=2 * size,
        unit="bytes",
        flops=0,
        bytes=2 * size,
        matmul_flops=0,
    )


@workload(mib=(1, 4, 16, 64, 256, 1024, 4096), tiny={"mib": 1})
def memory_read(env: Env, mib: int) -> Prepared:
    """Read `mib` MiB and add them up by row, in fp32: an upper bound for decoding.

    A CPU reads faster than it copies, because it need not read what it overwrites.
    """
    import torch

    source = env.rand(mib, ROW, dtype=torch.float32)
    rows = env.draw(mib, SHOWN)
    size = source.numel() * source.element_size()
    return Prepared(
        step=lambda: source.sum(1),
        inputs=(source,),
        reference=lambda: source[rows].cpu().double().sum(1),
        view=lambda sums: sums[rows],
        units=size,
        unit="bytes",
        flops=source.numel(),
        bytes=size + 4 * mib,
        matmul_flops=0,
    )
