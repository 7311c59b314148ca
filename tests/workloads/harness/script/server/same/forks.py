# Children by fork, by subprocess and by a pool; exit handlers and temporary folders of all of them.
import atexit
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
folder = tempfile.TemporaryDirectory(dir=".")
atexit.register(lambda: print("bye from", "the parent" if os.getpid() == parent else "a child", flush=True))
parent = os.getpid()


def step():
    optimizer.zero_grad()
    loss = net(torch.randn(4, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def squared(number):
    return number**2


for _ in range(10):
    print(step(), flush=True)
if os.fork() == 0:
    print("child", step(), sorted(name for name in os.environ if "GRIDBENCH" in name), flush=True)
    sys.exit(0)
os.wait()
print(
    subprocess.run([sys.executable, "-c", "import os; print(sorted(os.environ))"], capture_output=True).stdout
)
with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
    print(list(pool.map(squared, range(4))), flush=True)
sys.exit("the end")
