"""Move data between host and device, both ways, pinned and pageable: the roof of what does not stay there."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

ROW = 2**18  # elements of fp32: 1 MiB
SHOWN = 4  # rows that are checked


@workload(mib=(1, 16, 64, 256, 1024), tiny={"mib": 1}, devices=("cuda",))
def transfer_bandwidth(env: Env, mib: int) -> Prepared:
    """Move `mib` MiB from pinned memory of the host to the device, fp32 in every precision.

    The other three moves, pageable there and both kinds back, are in the record's `transfer`. The end-to-end
    time of this workload means no more than three moves one after another.
    """
    import torch

    source = torch.rand(mib, ROW, generator=env.generator).pin_memory()
    target = torch.empty(mib, ROW, device=env.device)
    rows = env.draw(mib, SHOWN)
    size = source.numel() * source.element_size()
    return Prepared(
        step=lambda: target.copy_(source, non_blocking=True),
        inputs=(source,),
        reference=lambda: source[rows].double(),
        view=lambda moved: moved[rows],
        units=size,
        unit="bytes",
        flops=0,
        bytes=size,  # of device memory it only writes
        matmul_flops=0,
    )
