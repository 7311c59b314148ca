"""Tell circles, squares and crosses apart: a small convolutional network on pictures that are drawn here."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PIXELS = 32


def pictures(count: int) -> TensorDataset:
    """Draw so many shapes of random size and place under noise; the label is the kind of shape."""
    kinds = torch.randint(0, 3, (count,))
    centre = PIXELS * (0.35 + 0.3 * torch.rand(2, count, 1, 1))
    radius = PIXELS * (0.15 + 0.15 * torch.rand(count, 1, 1))
    grid = torch.arange(PIXELS).float()
    x, y = (grid[None, :, None] - centre[0]).abs(), (grid[None, None, :] - centre[1]).abs()
    circle = (x**2 + y**2).sqrt() < radius
    square = torch.maximum(x, y) < radius
    cross = (torch.minimum(x, y) < radius / 4) & square
    drawn = torch.stack([circle, square, cross])[kinds, torch.arange(count)].float()
    return TensorDataset((drawn + 0.5 * torch.randn(drawn.shape))[:, None], kinds)


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--epochs", type=int, default=20)
options = parser.parse_args()
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
layers += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * (PIXELS // 4) ** 2, 3)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(pictures(8192), batch_size=options.batch, shuffle=True)
for _ in range(options.epochs):
    for images, kinds in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), kinds.to(device))
        loss.backward()
        optimizer.step()
