# Two views of each picture, an encoder with a momentum copy, and a queue of negatives, as MoCo.
import argparse
import copy
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
torch.manual_seed(7)


class Views(Dataset):
    def __init__(self):
        self.pictures = torch.rand(1600, 3, 24, 24)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index]
        return picture + 0.1 * torch.randn_like(picture), picture.flip(2) + 0.1 * torch.randn_like(picture)


encoder = nn.Sequential(
    nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64),
    nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 64),
)  # fmt: skip
slow = copy.deepcopy(encoder)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.03, momentum=0.9)
queue = nn.functional.normalize(torch.randn(2048, 64), dim=1)
loader = DataLoader(Views(), batch_size=32, shuffle=True, drop_last=True)
for epoch in range(options.epochs):
    for one, other in loader:
        query = nn.functional.normalize(encoder(one), dim=1)
        with torch.no_grad():
            for mean, value in zip(slow.parameters(), encoder.parameters(), strict=True):
                mean.lerp_(value, 0.01)
            key = nn.functional.normalize(slow(other), dim=1)
        scores = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.T], dim=1) / 0.07
        loss = nn.functional.cross_entropy(scores, torch.zeros(len(one), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue = torch.cat([key, queue[: -len(key)]])
    print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
torch.save(encoder.state_dict(), options.out / "encoder.pt")
