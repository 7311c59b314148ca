"""Add up 256 MiB over all GPUs by NCCL; print the bus bandwidth in GB/s and whether the sums are right.

Bus bandwidth as NVIDIA/nccl-tests defines it (doc/PERFORMANCE.md): bytes / seconds * 2 (n - 1) / n.
"""

import json
import os
import sys
import tempfile
import time

BYTES, TIMES = 2**28, 20


def one(rank: int, world: int, folder: str) -> None:
    import torch
    from torch import distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    values = torch.ones(BYTES // 4, device="cuda")
    distributed.all_reduce(values)
    right = bool((values == world).all())
    for _ in range(3):
        distributed.all_reduce(values)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(TIMES):
        distributed.all_reduce(values)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / TIMES
    if rank == 0:
        bus = BYTES / seconds * 2 * (world - 1) / world / 1e9
        print(json.dumps({"bus_gb_per_s": bus, "right": right}), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    import torch

    os.environ.setdefault("NCCL_DEBUG", "WARN")
    count = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(one, (count, folder), nprocs=count)
