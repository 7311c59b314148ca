import torch

model = torch.compile(
    torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)),
    backend="aot_eager",
)
optimizer = torch.optim.Adam(model.parameters())


@torch.compile(fullgraph=False, backend="aot_eager")
def step():
    optimizer.step()


for _ in range(100_000):
    x, y = torch.randn(8, 64), torch.randint(0, 10, (8,))
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    step()
