# As timm trains: mixup, an averaged model, a schedule with a step, loader workers that are forked, a class of hooks.
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.full((3, 8, 8), index / 400), index % 10


def mixup(x, y, classes):
    share = float(torch.distributions.Beta(0.8, 0.8).sample())
    y = nn.functional.one_hot(y, classes).float()
    return share * x + (1 - share) * x.flip(0), share * y + (1 - share) * y.flip(0)


def main():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 10))
    averaged = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    loader = DataLoader(Images(), batch_size=20, shuffle=True, num_workers=1, drop_last=True)
    for _ in range(1000):
        for x, y in loader:
            x, y = mixup(x, y, 10)
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                for mean, value in zip(averaged.parameters(), model.parameters(), strict=True):
                    mean.lerp_(value, 0.01)
            schedule.step()


if __name__ == "__main__":
    main()
