# All steps are taken in a thread, while the main thread waits.
import threading

import torch


def train():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()


threading.Thread(target=train).start()
