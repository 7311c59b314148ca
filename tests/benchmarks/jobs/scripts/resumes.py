# It goes on from its own checkpoint, which it keeps every 200 steps: model, optimizer, schedule and random state.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5000)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(6)
model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 128))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
last, start = options.out / "last.pt", 0
if last.exists():
    state = torch.load(last)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    torch.set_rng_state(state["random"])
    start = state["step"]
for step in range(start, options.steps):
    x = torch.randn(128, 128)
    loss = (model(x) - x.roll(1, dims=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 200 == 199:
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        torch.save(state | {"random": torch.get_rng_state(), "step": step + 1}, options.out / "new.pt")
        (options.out / "new.pt").rename(last)
