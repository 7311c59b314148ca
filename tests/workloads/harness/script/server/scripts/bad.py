# Ways to go wrong, by name.
import contextlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

how = sys.argv[1]
if how == "missing":
    __import__("a_package_that_nobody_has")
if how == "hangs":
    time.sleep(600)
if how == "no-torch":
    sys.exit()

import torch  # noqa: E402

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step():
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).sum()
    if how == "nan":
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()


def swallow():
    while True:
        with contextlib.suppress(BaseException):
            step()


def deaf():
    """Catch everything, then sleep for ever."""
    try:
        while True:
            step()
    except BaseException:
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(60)


if how == "raises":
    raise ValueError("the data set is empty")
if how == "exits":
    sys.exit("no data")
if how == "three":
    for _ in range(3):
        step()
if how == "pool":  # that is never shut down, like torch.compile's
    pool = ThreadPoolExecutor(1)
    for _ in range(5):
        pool.submit(step).result()
if how == "none":
    torch.randn(4, 8) @ model.weight.T
if how == "swallows":
    swallow()
if how == "deaf":
    deaf()
if how == "os-exit":
    for _ in range(5):
        step()
    os._exit(3)
if how == "forks":
    if os.fork() == 0:
        for _ in range(3):
            step()
        if os.fork() == 0:
            os.setsid()
            time.sleep(300)
        sys.exit(7)
    os.wait()
    while True:
        step()
if how == "nan":
    while True:
        step()
if how == "prints":
    for _ in range(20_000):
        print("x" * 5_000)
    while True:
        step()
if how == "evaluates-first":
    model.eval()
    with torch.no_grad():
        for _ in range(3000):
            model(torch.randn(16, 8))
    model.train()
    while True:
        step()
if how == "own-optimizer":
    while True:
        model(torch.randn(4, 8)).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
if how == "subprocess":
    import subprocess

    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(20_000_000))"], check=True)
