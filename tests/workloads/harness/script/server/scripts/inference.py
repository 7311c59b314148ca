import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).eval()
with torch.inference_mode():
    for _ in range(1_000_000):
        model(torch.randn(12, 64)).argmax(1)
