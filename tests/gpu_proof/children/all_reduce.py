"""Add up values over all ranks; print the bus bandwidth in GB/s and whether the sums are right.

NCCL, 256 MiB, a GPU for each rank; gloo and less on a CPU, to test this code. Bus bandwidth as in
NVIDIA/nccl-tests (doc/PERFORMANCE.md): bytes / seconds * 2 (n - 1) / n.
"""

import json
import os
import sys
import tempfile
import time

BYTES = {"cuda": 2**28, "cpu": 2**20}
BACKEND = {"cuda": "nccl", "cpu": "gloo"}
TIMES = 20


def one(rank: int, world: int, device: str, folder: str) -> None:
    import torch
    from torch import distributed

    on_gpu = device == "cuda"
    if on_gpu:
        torch.cuda.set_device(rank)
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    meet = f"file://{folder}/meet"
    distributed.init_process_group(BACKEND[device], init_method=meet, rank=rank, world_size=world)
    values = torch.ones(BYTES[device] // 4, device=device)
    distributed.all_reduce(values)
    right = bool((values == world).all())
    for _ in range(3):
        distributed.all_reduce(values)
    wait()
    begun = time.perf_counter()
    for _ in range(TIMES):
        distributed.all_reduce(values)
    wait()
    seconds = (time.perf_counter() - begun) / TIMES
    if rank == 0:
        bus = BYTES[device] / seconds * 2 * (world - 1) / world / 1e9
        print(json.dumps({"bus_gb_per_s": bus, "right": right}), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    from torch.multiprocessing import spawn

    os.environ.setdefault("NCCL_DEBUG", "WARN")
    device, world = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        spawn(one, (world, device, folder), nprocs=world)
