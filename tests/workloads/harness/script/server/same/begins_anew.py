# The script starts itself anew, as many do to set a variable that must be there before torch.
import os
import sys

if "ANEW" not in os.environ:
    import torch

    print("first", torch.__version__, flush=True)
    os.environ["ANEW"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv, "second"])
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
torch.save(net, "net.pt")
print(sys.argv, sys.flags, flush=True)
sys.exit(5)
