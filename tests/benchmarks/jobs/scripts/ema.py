# As timm trains: mixup, warm-up and cosine per step, an averaged model; both models are evaluated after each epoch.
import argparse
import copy
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.short = (
            nn.Conv2d(width, out, 1, stride, bias=False) if stride > 1 or width != out else nn.Identity()
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def images(count):
    labels = torch.randint(0, 10, (count,))
    return TensorDataset(torch.randn(count, 3, 32, 32) + labels.view(-1, 1, 1, 1) / 5, labels)


def mixup(x, y):
    share = float(torch.distributions.Beta(0.8, 0.8).sample())
    y = nn.functional.one_hot(y, 10).float()
    return share * x + (1 - share) * x.flip(0), share * y + (1 - share) * y.flip(0)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in loader) / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--warmup-epochs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=".")
    options = parser.parse_args()
    torch.manual_seed(42)
    train, held_out = (
        DataLoader(images(4000), 50, shuffle=True, drop_last=True),
        DataLoader(images(1000), 100),
    )
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    averaged, best = copy.deepcopy(model), 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    warm = options.warmup_epochs * len(train)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(options.epochs * len(train) - warm, 1)),
        ],
        [warm],
    )
    for epoch in range(options.epochs):
        model.train()
        for x, y in train:
            x, y = mixup(x, y)
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for mean, value in zip(
                    averaged.state_dict().values(), model.state_dict().values(), strict=True
                ):
                    mean.lerp_(value, 0.01) if mean.is_floating_point() else mean.copy_(value)
        now, of_averaged = accuracy(model, held_out), accuracy(averaged, held_out)
        print(f"epoch {epoch}: accuracy {now:.3f}, averaged {of_averaged:.3f}", flush=True)
        state = {
            "model": model.state_dict(),
            "ema": averaged.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        torch.save(state, options.output / "last.pt")
        if of_averaged > best:
            best = of_averaged
            torch.save(state, options.output / "best.pt")


if __name__ == "__main__":
    main()
