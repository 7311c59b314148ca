import json
import shutil
from pathlib import Path

import pytest

from tests.docs.shown import DOCS, block_of
from tests.emulators.slurm.cluster import cluster
from tests.emulators.slurm.python import with_torch
from tests.exit_codes import assert_measured

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.chaos,  # `make test` installs no Slurm
]
PAGE = DOCS / "slurm.md"


@pytest.fixture
def slurm():
    with cluster(2, with_accounting=True) as made:
        yield made


def on(made, text):
    """Return the page's text for this cluster, which has no GPU."""
    pairs = (
        ("login.cluster.example", made.login.address),
        ("ssh-ed25519 AAAA…", " ".join(made.login.host_key.split()[:2])),
        ("~/torch", str(with_torch(made.folder).parents[1])),
        ("partition: gpu", "partition: main"),
        (", gpu_type: a100", ""),
        ("device: cuda", "device: cpu"),
        ("  gpus: 1\n", ""),
        ("gpus: 1\n", ""),
        ("7200", "600"),
    )
    for shown, own in pairs:
        assert shown in text, shown
        text = text.replace(shown, own)
    return text


def test_a_suite_is_measured_on_a_cluster(shell, deployments, slurm):
    (shell.home / ".ssh").mkdir(mode=0o700)
    shutil.copy(slurm.login.key, shell.home / ".ssh/id_ed25519")
    text = "\n".join(block_of(PAGE, "title: A100 of the faculty"))
    (deployments / "hardware/our-cluster.yaml").write_text(on(slurm, f"{text}\n"))
    code, told = shell("gridbench run quick --on our-cluster", timeout=900)
    assert_measured(code, told)
    assert "report: " in told, told
    records = Path(shell.environment["GRIDBENCH_RESULTS"]).glob("*/records/**/*.json")
    (record,) = [json.loads(path.read_text()) for path in records]
    assert record["verdict"] in (
        "ok",
        "noisy",
        "imprecise",
        "unsteady",
    )  # others can use the machine meanwhile
    assert record["environment"]["hostname"] in slurm.nodes
    assert slurm.jobs() == [] and not shell.processes()
