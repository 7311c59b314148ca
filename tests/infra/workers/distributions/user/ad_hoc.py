"""Run a flow without a deployment: `python ad_hoc.py MODULE DECORATOR POOL JOB_VARIABLES`."""

import importlib
import json
import sys

from prefect import flow

module, name, pool, variables = sys.argv[1:]
on_their_machine = getattr(importlib.import_module(module), name)
LAUNCHER = {"upload": [sys.executable], "execution": ["python"]}  # there is no uv


@on_their_machine(work_pool=pool, launcher=LAUNCHER, **json.loads(variables))
@flow(log_prints=True)
def add(a: int, b: int) -> None:
    print(f"the sum is {a + b}")


if __name__ == "__main__":
    print(add(2, 3, return_state=True).name)
