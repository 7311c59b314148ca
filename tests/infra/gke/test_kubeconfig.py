import base64
import stat

import pytest
import yaml
from kubernetes_asyncio import client, config

from infra.gke.clusters import GkeCluster
from infra.gke.errors import GkeError
from infra.gke.kubeconfig import check_free, context_name, forget, kubeconfig, write

CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
CLUSTER = GkeCluster("gridbench", "us-central1-a", True, "RUNNING", endpoint="203.0.113.7", ca=CA)
CONTEXT = "gke_my-project_us-central1-a_gridbench"
# [doc] Google Cloud SDK, api_lib/container/kubeconfig.py: without this flag the plugin asks gcloud, which knows
# not set after `gcloud auth application-default login` alone
PLUGIN = """#!/bin/sh
if [ "$1" != --use_application_default_credentials ]; then
  echo 'You do not currently have an active account selected.' >&2
  exit 1
fi
echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
       "status": {"token": "from-the-plugin"}}'
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "gke.kubeconfig"


def test_the_kubeconfig_holds_the_cluster_and_no_token(path):
    write(path, "my-project", CLUSTER)
    found = yaml.safe_load(path.read_text())
    (cluster,), (user,), (context,) = found["clusters"], found["users"], found["contexts"]
    assert cluster["cluster"] == {"server": "https://203.0.113.7", "certificate-authority-data": CA}
    assert list(user["user"]) == ["exec"] and user["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert user["user"]["exec"]["provideClusterInfo"] is True
    assert context["context"] == {"cluster": CONTEXT, "user": CONTEXT}
    assert found["current-context"] == CONTEXT == context_name("my-project", "us-central1-a", "gridbench")
    assert "token" not in path.read_text()


def test_only_the_owner_can_read_the_kubeconfig(path):
    write(path, "my-project", CLUSTER)
    path.chmod(0o644)
    write(path, "my-project", CLUSTER)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_client_of_kubernetes_takes_it_and_asks_the_plugin(path, tmp_path, monkeypatch):
    plugin = tmp_path / "gke-gcloud-auth-plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    write(path, "my-project", CLUSTER)
    loaded = client.Configuration()
    await config.load_kube_config(config_file=str(path), client_configuration=loaded)
    assert loaded.host == "https://203.0.113.7"
    assert loaded.api_key["BearerToken"] == "Bearer from-the-plugin"


@pytest.mark.parametrize(
    "content",
    [
        yaml.safe_dump({"contexts": [{"name": "work"}], "users": [{"name": "work", "user": {}}]}),
        yaml.safe_dump(kubeconfig("p", CLUSTER) | {"contexts": [{"name": "a"}, {"name": "b"}]}),
        "just words",
        "[1, 2]",
        "key: [unclosed",
        "[" * 10_000,
    ],
)
def test_a_foreign_kubeconfig_is_not_replaced(tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    for attempt in (check_free, lambda path: write(path, "my-project", CLUSTER)):
        with pytest.raises(GkeError, match=r"--kubeconfig .* (was not written by Gridbench|can't be read)"):
            attempt(path)
    assert not forget(path, CONTEXT) and path.read_text() == content


def test_a_kubeconfig_of_an_earlier_cluster_is_replaced(path):
    write(path, "other-project", CLUSTER)
    write(path, "my-project", CLUSTER)
    assert yaml.safe_load(path.read_text())["current-context"] == CONTEXT


def test_the_kubeconfig_is_deleted_with_its_own_cluster_only(path):
    write(path, "my-project", CLUSTER)
    assert not forget(path, "gke_my-project_us-east1-b_gridbench") and path.exists()
    assert forget(path, CONTEXT) and not path.exists()
    assert not forget(path, CONTEXT)


def test_a_cluster_without_an_address_gets_no_kubeconfig(path):
    with pytest.raises(GkeError, match=r"gridbench has no address yet \(PROVISIONING\)"):
        write(path, "my-project", GkeCluster("gridbench", "us-central1-a", True, "PROVISIONING"))
    assert not path.exists()


def test_an_invalid_folder_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(GkeError, match=r"--kubeconfig .* can't be"):
        write(tmp_path / "file" / "config", "my-project", CLUSTER)
