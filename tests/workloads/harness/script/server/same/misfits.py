# The model's first calls fail: their tracebacks go through torch's own lines, and so do warnings in the model.
import traceback
import warnings

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(5, 1))

    def forward(self, *, x):
        warnings.warn("a call", stacklevel=2)
        return self.parts(x)


net = Net()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    try:
        net(x=torch.ones(2, 4))
    except RuntimeError:
        traceback.print_exc()
for _ in range(20):
    net.parts[0](torch.ones(2, 4)).sum().backward()
    optimizer.step()
net(x=torch.ones(2, 4))
