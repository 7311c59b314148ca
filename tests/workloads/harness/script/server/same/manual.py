# No optimizer: the parameters are changed by hand, and the whole model is saved at each epoch.
import torch

torch.manual_seed(0)
net = torch.nn.Linear(16, 4)
for epoch in range(4):
    for _ in range(10):
        net.zero_grad()
        net(torch.randn(32, 16)).square().mean().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 1e-3 * parameter.grad
    torch.save(net, f"model-{epoch}.pt")
    print("epoch", epoch, [float(p.sum()) for p in net.parameters()])
