import base64

import pytest

from infra.gke import rights
from infra.gke.errors import GkeError
from tests.emulators.kube.server import kube


@pytest.fixture(scope="module")
def cluster():
    with kube(namespaces=()) as made:
        yield made


@pytest.fixture
def kubeconfig(cluster, tmp_path):
    return cluster.kubeconfig(tmp_path / "kubeconfig")


def read(cluster, plural, name):
    return cluster.control.call(lambda: cluster.control.cluster.store.get(plural, ("gridbench", name)))


def test_everything_is_made_and_can_be_made_again(cluster, kubeconfig):
    for password in ("first", "second"):
        rights.apply(kubeconfig, {"auth": f"me:{password}"})
        data = read(cluster, "secrets", "prefect")["data"]
        assert base64.b64decode(data["auth"]).decode() == f"me:{password}"
    for plural in ("serviceaccounts", "roles", "rolebindings"):
        assert read(cluster, plural, "gridbench-worker")["metadata"]["namespace"] == "gridbench"


def test_a_refusal_is_one_sentence_without_the_secret(cluster, tmp_path):
    foreign = cluster.kubeconfig(tmp_path / "kubeconfig", token="of nobody")
    with pytest.raises(GkeError, match=r"the cluster refuses .* \(401\)") as refused:
        rights.apply(foreign, {"key": "pnu_secret"})
    assert "pnu_secret" not in str(refused.value) and "cG51" not in str(refused.value)


def test_no_cluster_is_one_sentence(tmp_path):
    with pytest.raises(GkeError, match="can't be reached"):
        rights.apply(tmp_path / "absent", {})
