import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(int(os.environ.get("LAST", "100_000"))):
    x, y = torch.randn(8, 64), torch.randint(0, 10, (8,))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if "STEPS" in os.environ:
        with open(f"{os.environ['STEPS']}-{dist.get_rank()}", "a") as file:
            file.write(".")
dist.destroy_process_group()
