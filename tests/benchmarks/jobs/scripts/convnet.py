# A convnet on images of MNIST's shape: each epoch ends with an evaluation and a checkpoint, as torch's own example.
import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.drop1, self.drop2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(self.drop2(F.relu(self.fc1(torch.flatten(self.drop1(x), 1)))))


def images(count):
    labels = torch.randint(0, 10, (count,))
    return TensorDataset(torch.randn(count, 1, 28, 28) + labels.view(-1, 1, 1, 1) / 10, labels)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(int((model(x).argmax(1) == y).sum()) for x, y in loader) / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--out", type=Path, default=".")
    options = parser.parse_args()
    torch.manual_seed(1)
    train, held_out = DataLoader(images(6000), 64, shuffle=True), DataLoader(images(2000), 500)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    for epoch in range(options.epochs):
        model.train()
        for number, (x, y) in enumerate(train):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if number % 20 == 0:
                print(f"epoch {epoch}, batch {number}: loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch}: accuracy {evaluate(model, held_out):.3f}", flush=True)
        schedule.step()
        torch.save(model.state_dict(), options.out / f"convnet-{epoch}.pt")


if __name__ == "__main__":
    main()
