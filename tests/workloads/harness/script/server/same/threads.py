# Training in a thread, timers, handlers of signals that the script sends itself, and an own hook for errors.
import os
import signal
import sys
import threading

import torch

torch.manual_seed(0)
seen = []
signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(signal.Signals(number).name))
signal.signal(signal.SIGTERM, lambda number, frame: (print("saving", flush=True), sys.exit(143)))
threading.excepthook = lambda args: print("thread failed:", args.exc_value, flush=True)
sys.excepthook = lambda kind, error, trace: print("failed:", kind.__name__, error, flush=True)
print(
    [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGHUP)],
    threading.active_count(),
)


def train():
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for i in range(10):
        optimizer.zero_grad()
        loss = net(torch.randn(4, 4)).square().mean()
        loss.backward()
        optimizer.step()
        if i == 5:
            os.kill(os.getpid(), signal.SIGUSR1)
    torch.save(net, "net.pt")
    raise ValueError("after the training")


thread = threading.Thread(target=train)
thread.start()
thread.join()
print(seen, threading.active_count(), sys.getrecursionlimit(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
