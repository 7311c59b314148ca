# Images that two loader workers make and augment one by one in Python, while the model trains on finished ones.
import argparse
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, count, augment):
        self.count, self.augment = count, augment

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        draw = np.random.default_rng(index)
        picture = draw.integers(0, 256, (72, 72, 3), dtype=np.uint8)
        picture[index % 10 * 7 : index % 10 * 7 + 7] = 255
        top, left = (random.randrange(9), random.randrange(9)) if self.augment else (4, 4)
        picture = picture[top : top + 64, left : left + 64]
        if self.augment and random.random() < 0.5:
            picture = picture[:, ::-1]
        picture = (picture.astype(np.float32) / 255 - 0.5) / 0.25
        for _ in range(2):  # a blur, along both axes
            picture = (picture + np.roll(picture, 1, 0) + np.roll(picture, 1, 1)) / 3
        return torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))), index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=".")
    options = parser.parse_args()
    torch.manual_seed(5)
    train = DataLoader(Pictures(3200, True), 32, shuffle=True, num_workers=options.workers, drop_last=True)
    held_out = DataLoader(Pictures(640, False), 64, num_workers=options.workers)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(options.epochs):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in held_out)
        print(f"epoch {epoch}: accuracy {right / 640:.3f}", flush=True)
        torch.save(model.state_dict(), options.out / "last.pt")


if __name__ == "__main__":
    main()
