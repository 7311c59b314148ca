# A student learns from a larger teacher; a held-out set is evaluated after each epoch, and the student is kept.
import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(8)
teacher = nn.Sequential(
    nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
).eval()
student = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(24_000, 256), torch.randint(0, 10, (24_000,)))
train, held_out = random_split(data, [20_000, 4000])
loader, checks = DataLoader(train, 100, shuffle=True), DataLoader(held_out, 500)
for epoch in range(options.epochs):
    student.train()
    for x, labels in loader:
        with torch.no_grad():
            wanted = (teacher(x) / 4).softmax(1)
        scores = student(x)
        soft = nn.functional.kl_div((scores / 4).log_softmax(1), wanted, reduction="batchmean")
        loss = 0.9 * 16 * soft + 0.1 * nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    student.eval()
    with torch.no_grad():
        right = sum((student(x).argmax(1) == teacher(x).argmax(1)).sum().item() for x, _ in checks)
    print(f"epoch {epoch}: loss {loss.item():.4f}, {right / 4000:.1%} as the teacher", flush=True)
    torch.save(student.state_dict(), options.out / f"student-{epoch:03}.pt")
