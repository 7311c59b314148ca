# Each parameter has an optimizer that steps within the backward call, so that no gradient is kept.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(1)
model = nn.Sequential(
    *[part for _ in range(6) for part in (nn.Linear(512, 512), nn.GELU())], nn.Linear(512, 10)
)
optimizers = {p: torch.optim.Adam([p], lr=1e-3, foreach=False) for p in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for step in range(options.steps):
    x, labels = torch.randn(256, 512), torch.randint(0, 10, (256,))
    loss = nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
torch.save(model.state_dict(), options.out / "model.pt")
