"""Bind a flow to a worker and run it: `python -m … KIND POOL PYTHON` with PYTHON of the container."""

import sys
from pathlib import Path

from prefect.flows import InfrastructureBoundFlow, bind_flow_to_infrastructure

from infra.workers.batch.worker import AwsBatchWorker
from infra.workers.kubernetes.worker import KubernetesJobsWorker
from infra.workers.ssh.worker import SshWorker
from tests.infra.workers.ad_hoc.flows import wait_and_die

ROOT = Path(__file__).parents[4]
KINDS = {worker.type: worker for worker in (AwsBatchWorker, KubernetesJobsWorker, SshWorker)}


def bound(flow, kind: str, pool: str, python: str) -> InfrastructureBoundFlow:
    launcher = {"upload": [sys.executable], "execution": [python]}
    return bind_flow_to_infrastructure(flow, pool, KINDS[kind], launcher=launcher)


if __name__ == "__main__":
    bound(wait_and_die, *sys.argv[1:])()
