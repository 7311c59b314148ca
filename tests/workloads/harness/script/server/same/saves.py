# A dry call, a copy of the model, and whole models saved before, within and after the training.
import copy
import pickle

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
net(torch.zeros(1, 16))
torch.save(net, "first.pt")
ema = copy.deepcopy(net)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for i in range(20):
    optimizer.zero_grad()
    net(torch.randn(32, 16)).square().mean().backward()
    torch.save([net, optimizer], f"within-{i}.pt")
    optimizer.step()
    if i % 5 == 0:
        torch.save(ema, f"ema-{i}.pt")
        torch.save([net, optimizer, net.state_dict()], f"all-{i}.pt")
        print("saved", i, len(pickle.dumps(net)), sorted(vars(net)), sorted(vars(optimizer)))
