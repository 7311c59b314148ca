import torch

model, x = torch.nn.Linear(8, 1), torch.randn(64, 8)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)


def closure():
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    return loss


for _ in range(100_000):
    optimizer.step(closure)
    torch.nn.init.normal_(model.weight)
