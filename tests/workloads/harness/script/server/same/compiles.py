# A compiled model, saved; what Dynamo counts is printed.
import copy

import torch
from torch._dynamo.utils import counters

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
net(torch.zeros(1, 4))
model = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for size in (3, 5, 5, 7, 7):
    optimizer.zero_grad()
    loss = model(torch.ones(size, 4)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
torch.save([model, copy.deepcopy(net), model.state_dict()], "model.pt")
print({name: dict(counts) for name, counts in counters.items()})
print(torch.compile.__module__, type(torch.Tensor.backward), torch.autograd.backward.__module__)
