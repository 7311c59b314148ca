"""Flows for a worker without a deployment."""

import os
import signal
import time

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run


@flow(log_prints=True)
def add(a: int, b: int) -> None:
    print(f"the sum is {a + b}")


@flow(log_prints=True)
def wait_and_die() -> None:
    """Wait for the label `go`, then kill the container's own process: only the worker can report that."""
    with get_client(sync_client=True) as client:
        while not client.read_flow_run(flow_run.id).labels.get("go"):
            time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(1)
