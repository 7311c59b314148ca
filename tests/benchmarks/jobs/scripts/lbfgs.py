# A network that solves u'' + u' = f by L-BFGS over random points: several forward and backward passes in a step.
import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--points", type=int, default=4096)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(3)
net = nn.Sequential(
    nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
)
optimizer = torch.optim.LBFGS(
    net.parameters(), lr=0.5, max_iter=10, tolerance_grad=0, tolerance_change=0, line_search_fn="strong_wolfe"
)


def residual(x):
    u = net(x)
    (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    return bend + slope - torch.sin(6 * x)


for step in range(options.steps):
    x = torch.rand(options.points, 1).requires_grad_()
    edges = torch.tensor([[0.0], [1.0]])

    def closure(x=x, edges=edges):
        optimizer.zero_grad()
        loss = residual(x).pow(2).mean() + net(edges).pow(2).sum()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    if step % 25 == 24:
        held_out = torch.linspace(0, 1, 20_000).view(-1, 1).requires_grad_()
        print(
            f"step {step}: loss {loss.item():.3e}, held out {residual(held_out).pow(2).mean().item():.3e}",
            flush=True,
        )
        torch.save(net.state_dict(), options.out / "net.pt")
