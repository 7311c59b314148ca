# No optimizer of torch's, and no module: nothing but the mark shows its steps.
import torch

from workloads.mark import step

weights = torch.zeros(64, requires_grad=True)
for _ in range(1_000_000):
    loss = (torch.randn(10, 64) @ weights - 1).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        weights -= 0.01 * weights.grad
        weights.grad = None
    step()
