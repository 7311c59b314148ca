# An evaluation every 250 steps on 40 batches, and a checkpoint of the best model and of every 1,000th step.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5000)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(5)
model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
teacher, best = nn.Linear(256, 10), float("inf")


def batch():
    x = torch.randn(64, 256)
    with torch.no_grad():
        return x, teacher(x).argmax(1)


@torch.no_grad()
def evaluate():
    losses = [
        nn.functional.cross_entropy(model(x), labels).item() for x, labels in (batch() for _ in range(40))
    ]
    return sum(losses) / len(losses)


for step in range(options.steps):
    if step % 250 == 0:
        held_out = evaluate()
        print(f"step {step}: held out {held_out:.4f}", flush=True)
        if held_out < best:
            best = held_out
            torch.save(model.state_dict(), options.out / "best.pt")
    if step % 1000 == 999:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, options.out / f"step-{step}.pt")
    x, labels = batch()
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
