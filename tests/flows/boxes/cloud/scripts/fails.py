"""A training that fails at its third step."""

import torch

weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
for step in range(3):
    if step == 2:
        raise ValueError("the data are spoiled")
    optimizer.zero_grad()
    weight.square().sum().backward()
    optimizer.step()
