import re
from pathlib import Path

import pytest

from infra.gke.commands import evening, grants, outward
from infra.gke.errors import AccountRefused, GkeError, NoNetwork
from infra.gke.plan import make_plan
from infra.gke.settings import check
from tests.emulators.gke.quick import NAME, place, quick_gke, up, wishes

NODE = "gridbench-node@my-project.iam.gserviceaccount.com"
SHARED = "projects/host-project/global/networks/shared"
SHARED_SUBNET = "projects/host-project/regions/us-central1/subnetworks/lab"


@pytest.fixture
def account(monkeypatch):
    with quick_gke(monkeypatch) as account:
        yield account


def silent(_):
    pass


def asked(account):
    return account.called("CreateCluster")[0].cluster


def notes(**more):
    return make_plan(place(), wishes(**more), silent).notes


def test_a_project_without_a_default_network_is_reported_with_advice(account):
    account.networks = set()
    with pytest.raises(NoNetwork, match='has no network named "default"; name another with --network'):
        up(wishes())
    assert not account.clusters


@pytest.mark.parametrize(
    ("network", "subnetwork", "ranges"),
    [
        ("lab", "", ("", "")),
        ("lab", "lab-east", ("", "")),
        ("lab", "lab-east", ("pods", "services")),
        (SHARED, SHARED_SUBNET, ("pods", "services")),
    ],
)
def test_a_cluster_is_made_in_the_network_that_is_named(account, network, subnetwork, ranges):
    account.networks = {"lab", "shared"}
    pods, services = ranges
    cluster, failed = up(
        wishes(network=network, subnetwork=subnetwork, pod_range=pods, service_range=services)
    )
    policy = asked(account).ip_allocation_policy
    assert (policy.cluster_secondary_range_name, policy.services_secondary_range_name) == ranges
    assert not failed and (asked(account).network, asked(account).subnetwork) == (network, subnetwork)
    assert cluster.network == network.rpartition("/")[2]
    assert not notes(network=network, subnetwork=subnetwork) and not notes()


def test_a_cluster_stays_in_its_network(account):
    account.networks = {"default", "lab"}
    up(wishes())
    (note,) = notes(network="lab")
    assert note == "--network lab is not that of the cluster, default: it stays there"
    (note,) = notes(network="default", subnetwork="lab-east")
    assert note == "--subnetwork lab-east is not that of the cluster, default: it stays there"


@pytest.mark.parametrize("wish", [None, False])
def test_nodes_have_public_addresses_so_that_nothing_needs_a_nat(account, wish):
    cluster, _ = up(wishes(private_nodes=wish))
    assert not cluster.private
    pools = account.clusters[NAME].node_pools
    assert [pool.network_config.enable_private_nodes for pool in pools] == [False, False]


def test_nodes_can_be_private_and_so_are_those_of_later_pools(account):
    cluster, _ = up(wishes(private_nodes=True))
    assert cluster.private and asked(account).network_config.default_enable_private_nodes
    up(wishes("nvidia-tesla-t4"))
    pools = account.clusters[NAME].node_pools
    assert [pool.network_config.enable_private_nodes for pool in pools] == [True] * 3
    (note,) = notes(private_nodes=False)
    assert (
        note == "nodes of cluster gridbench have no public addresses: that is chosen when a cluster is made"
    )
    assert not notes(private_nodes=True)


def test_nodes_act_as_the_account_that_is_named_and_so_do_those_of_later_pools(account):
    account.accounts = {NODE}
    up(wishes(node_account=NODE))
    cluster, failed = up(wishes("nvidia-tesla-t4"))
    assert not failed and {pool.account for pool in cluster.pools} == {NODE}
    assert not notes() and not notes(node_account=NODE)


def test_without_one_they_act_as_compute_engines_default_account(account):
    account.accounts = {"default"}
    cluster, failed = up(wishes())
    assert not failed and {pool.account for pool in cluster.pools} == {""}
    (system_note, note) = notes(node_account=NODE)
    assert f"pool nvidia-l4 is there and stays as it is, though account is none, not {NODE}" in note
    assert "pool system" in system_note


def test_a_service_account_that_must_not_be_used_is_reported(account):
    account.accounts = {"default"}
    with pytest.raises(AccountRefused, match="--node-account names another account"):
        up(wishes(node_account=NODE))
    assert not account.clusters


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"network": "My Net"}, "--network 'My Net' must be a network's name"),
        ({"network": "projects/x/regions/y/subnetworks/z"}, "--network 'projects/x/regions"),
        ({"network": "lab", "subnetwork": "-"}, "--subnetwork '-' must be a subnetwork's name"),
        ({"subnetwork": "lab"}, "--subnetwork lab needs the --network that it is in"),
        (
            {"network": "lab", "subnetwork": "projects/p/regions/us-east1/subnetworks/lab"},
            "is in us-east1: a cluster in us-central1-a needs one in us-central1",
        ),
        ({"network": SHARED}, "is another project's, where GKE makes nothing: name a --subnetwork"),
        ({"network": SHARED, "subnetwork": SHARED_SUBNET, "pod_range": "pods"}, "and --service-range"),
        ({"network": "lab", "pod_range": "My Pods"}, "--pod-range 'My Pods' must be the name of"),
        ({"node_account": "me@example.com"}, "--node-account 'me@example.com' must be a service account's"),
        ({"node_account": "default"}, "--node-account 'default' must be"),
    ],
)
def test_nonsense_is_refused_before_google_hears_of_it(more, sentence):
    with pytest.raises(GkeError) as refused:
        check(wishes(**more))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "more",
    [
        {"network": "lab"},
        {"network": SHARED, "subnetwork": SHARED_SUBNET, "pod_range": "pods", "service_range": "services"},
        {"node_account": NODE},
        {"node_account": "123456789012-compute@developer.gserviceaccount.com"},
    ],
)
def test_network_options_that_gke_accepts_are_accepted(more):
    check(wishes(**more))


def test_both_roles_of_the_nodes_are_reported_for_their_account():
    logs, pulls = grants("my-project", NODE)
    assert f'"serviceAccount:{NODE}"' in logs and "roles/container.defaultNodeServiceAccount" in logs
    assert f'"serviceAccount:{NODE}"' in pulls and "roles/artifactregistry.reader" in pulls
    assert all("-compute@developer.gserviceaccount.com" in line for line in grants("my-project", ""))


def test_gke_refuses_a_shared_network_without_a_range_for_pods(account):
    account.networks = {"shared"}
    with pytest.raises(GkeError, match="must name the secondary ranges"):
        up(wishes(network=SHARED, subnetwork=SHARED_SUBNET))


def test_google_deletes_the_cluster_in_the_evening_if_it_is_told_to():
    *_, job = evening("my-project", "us-central1-a", "gridbench")
    assert "--location us-central1 " in job and "--http-method DELETE" in job
    assert (
        "https://container.googleapis.com/v1/projects/my-project/locations/us-central1-a/clusters/gridbench"
        in job
    )
    page = (Path(__file__).parents[3] / "docs" / "gke.md").read_text()
    assert "\n".join(evening("PROJECT", "us-central1-a", "gridbench")) in page


@pytest.mark.parametrize("cluster", ["a", "gridbench", "a-very-long-name-for-a-cluster-of-ours-1"])
def test_the_account_that_deletes_has_a_name_that_google_takes(cluster):
    _, made, *_ = evening("my-project", "us-central1-a", cluster)
    assert re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", made.split()[4])


def test_a_way_out_is_made_in_the_clusters_network_and_region():
    router, nat = outward("my-project", "us-central1-a", "lab")
    assert "--network lab --project my-project --region us-central1" in router
    assert "--auto-allocate-nat-external-ips" in nat
    assert "--network default" in outward("my-project", "us-central1-a", "")[0]
