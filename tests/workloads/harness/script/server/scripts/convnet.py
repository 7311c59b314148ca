# A convnet on MNIST's shapes, with evaluation and a checkpoint at the end of each epoch.
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, 2)
        self.fc = nn.Linear(8 * 13 * 13, 10)

    def forward(self, x):
        return F.log_softmax(self.fc(torch.flatten(F.relu(self.conv(x)), 1)), dim=1)


def train(model, loader, optimizer):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        F.nll_loss(model(data), target).backward()
        optimizer.step()


def test(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(int((model(data).argmax(1) == target).sum()) for data, target in loader)


def main():
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(640, 1, 28, 28), torch.randint(0, 10, (640,)))
    loader, held_out = DataLoader(data, batch_size=64, shuffle=True), DataLoader(data, batch_size=100)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for epoch in range(int(os.environ.get("EPOCHS", "1000"))):
        train(model, loader, optimizer)
        print(f"epoch {epoch}: {test(model, held_out)} of 640", flush=True)
        scheduler.step()
        torch.save(model.state_dict(), os.environ.get("CHECKPOINT", os.devnull))


if __name__ == "__main__":
    main()
