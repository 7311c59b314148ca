import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulators.kube.server import kube

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

ROOT = Path(__file__).parents[5]
SCENARIOS = "tests/infra/workers/kubernetes/scenarios"


def test_the_scenarios_of_a_real_cluster_are_collected_and_start(tmp_path):
    with kube(namespaces=()) as cluster:
        named = {"CLUSTER_KUBECONFIG": str(cluster.kubeconfig(tmp_path / "admin")), "CLUSTER_IMAGE": "ours:1"}
        words = ["-v", "-p", "no:cacheprovider", SCENARIOS, "-k", "cancelling_deletes_the_job"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=ROOT,
            env={**os.environ, **named},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "1 passed" in said, said[-3000:]
    assert int(re.search(r"(\d+) deselected", said)[1]) >= 7, "all the others were collected"
