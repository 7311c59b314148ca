import stat
import sys

import pytest
import yaml
from google.cloud import container_v1 as gke
from grpc import StatusCode

from gridbench import main
from gridbench.machines import gke as commands
from gridbench.machines import gke_text
from infra.gke import build as building
from infra.gke.api import ENDPOINT_VARIABLE, PROJECT_VARIABLE
from infra.gke.pools import GkePool
from tasks.pricing.facts import Fact
from tests.emulators.gke.account import Fault
from tests.emulators.gke.quick import NAME, ZONE, quick_gke

UP = ("up", "gke", "--zone", ZONE, "--accelerator", "nvidia-l4")


@pytest.fixture
def account(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PROJECT_VARIABLE, "my-project")
    monkeypatch.setattr(gke_text, "prices", facts)
    monkeypatch.setattr(gke_text.console, "width", 200, raising=False)
    with quick_gke(monkeypatch) as account:
        yield account


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command, `up` for the cluster alone; return exit code and output on one line."""

    def go(*words):
        alone = ["--cluster-only"] if words[0] == "up" else []
        monkeypatch.setattr(sys, "argv", ["gridbench", *words, *alone])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, " ".join("".join(capsys.readouterr()).split())

    return go


def facts():
    row = {"provider": "gcp", "region": "us-central1", "source": "test", "date": "2026-11-21"}
    prices = (
        ({"host": "g2-standard-8"}, "on-demand", 0.3),
        ({"gpu": "l4"}, "on-demand", 0.5),
        ({"gpu": "l4"}, "spot", 0.2),
        ({"host": "e2-standard-2"}, "on-demand", 0.07),
        ({"instance": "a2-highgpu-1g"}, "on-demand", 3.6),
        ({"instance": "n1-standard-8"}, "on-demand", 0.4),
    )
    return tuple(Fact(**row, **what, purchase=how, usd_per_hour=usd) for what, how, usd in prices)


DISK = gke_text.DISK_USD_PER_HOUR + gke_text.ADDRESS_USD_PER_HOUR  # what every node has
FEE, HOURS = 0.10, 730


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["up", "gke", "--zone", ZONE], "--accelerator is missing: name at least one, such as nvidia-l4"),
        (
            [*UP[:3], "us-central1", *UP[4:]],
            "'us-central1' is a region: name one of its zones, such as us-central1-a",
        ),
        ([*UP[:3], "mars", *UP[4:]], "--zone 'mars' is not a zone"),
        ([*UP, "--cluster", "My_Cluster"], "--cluster 'My_Cluster' must be 1 to 40 small letters"),
        ([*UP, "--max-nodes", "0"], "--max-nodes is 0"),
        ([*UP, "--driver", "newest"], "--driver 'newest' must be one of LATEST, DEFAULT"),
        ([*UP, "--max-run-hours", "0"], "--max-run-hours is 0"),
        ([*UP[:5], "nvidia-tesla-k80"], "nvidia-tesla-k80 is unsupported"),
        ([*UP, "--network", "My Net"], "--network 'My Net' must be a network's name"),
        ([*UP, "--node-account", "me"], "--node-account 'me' must be a service account's address"),
        ([*UP, "--project", "x"], "project 'x' must be a project's id"),
        (["status", "gke", "--zone", "mars"], "--zone 'mars' is not a zone"),
        (["down", "gke", "--cluster", "-"], "--cluster '-' must be"),
    ],
)
def test_nonsense_is_refused_before_google_hears_of_it(run, account, words, sentence):
    code, output = run(*words)
    assert code == 2 and output.startswith("error: ") and sentence in output
    assert "Traceback" not in output and not account.requests


@pytest.mark.parametrize("words", [UP, ("status", "gke"), ("down", "gke")])
def test_no_credentials_is_one_sentence(run, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    for name in (ENDPOINT_VARIABLE, PROJECT_VARIABLE, "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))  # where gcloud would have left some
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    code, output = run(*words)
    assert code == 2 and output.startswith("error: Google Cloud credentials were not found: run `gcloud auth")


def test_up_shows_the_cost_makes_the_cluster_and_writes_a_kubeconfig(run, account, tmp_path):
    code, output = run(*UP, "--max-nodes", "2", "--yes")
    assert code == 0
    idle = 0.07 + DISK + 0.10
    assert f"Idle: {idle:.2f} USD an hour, {idle * HOURS:.0f} USD a month" in output
    assert f"at most {idle + 2 * (0.3 + 0.5 + DISK):.2f} USD an hour." in output
    assert "gcloud compute routers" not in output and "NAT" not in output
    assert '{"cloud.google.com/gke-nodepool": "nvidia-l4"}' in output
    assert "gcloud scheduler jobs create http gridbench-down --project my-project" in output
    path = tmp_path / ".gridbench" / "gke.kubeconfig"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["current-context"] == f"gke_my-project_{ZONE}_gridbench"


def test_a_month_of_the_idle_cluster_is_said_part_by_part_before_it_is_made(run, account, monkeypatch):
    monkeypatch.setattr(commands.typer, "confirm", lambda question: False)
    code, output = run(*UP)
    assert code == 2 and account.changes == []
    month = (0.07 + DISK + FEE) * HOURS
    assert (
        f"{month:.0f} USD a month, until `gridbench down gke`: management 73.00, 1 e2-standard-2 51.10, "
        in output
    )
    assert "disks 10.00, public addresses 3.65. Google's free tier pays the management" in output
    assert f"then it is {month - 73:.0f} USD a month." in output


def test_a_nat_is_part_of_the_costs_of_private_nodes_and_how_to_make_one_is_reported(run, account):
    code, output = run(*UP, "--private-nodes", "--network", "default", "--yes")
    assert code == 0 and "gcloud compute routers nats create gridbench-nat" in output
    nat = gke_text.ADDRESS_USD_PER_HOUR + gke_text.NAT_USD_PER_HOUR
    assert f"disks 10.00, Cloud NAT {nat * HOURS:.2f}, and 0.045 a GiB through the NAT." in output
    assert "public addresses 3.65" not in output


def test_both_roles_of_the_nodes_are_reported_before_the_cluster_is_made(run, account):
    node = "gridbench-node@my-project.iam.gserviceaccount.com"
    code, output = run(*UP, "--node-account", node, "--yes")
    assert code == 0 and output.count(f'"serviceAccount:{node}"') == 2
    assert "roles/container.defaultNodeServiceAccount" in output and "roles/artifactregistry.reader" in output


def test_a_cluster_that_could_cost_more_than_the_limit_is_refused(run, account):
    code, output = run(*UP, "--max-nodes", "30", "--yes")
    busy = 0.07 + DISK + FEE + 30 * (0.8 + DISK)
    assert code == 2 and account.changes == []
    assert f"costs {busy:.2f} USD an hour, and --max-usd-per-hour is 20: fewer accelerators" in output
    assert run(*UP, "--max-usd-per-hour", "nan", "--yes")[0] == 2 and account.changes == []
    assert run(*UP, "--max-nodes", "30", "--max-usd-per-hour", "30", "--yes")[0] == 0


def test_a_complete_cluster_is_never_above_the_limit(run, account):
    run(*UP, "--yes")
    assert run(*UP, "--max-usd-per-hour", "0.1")[0] == 0


def test_nothing_is_made_without_a_yes(run, account, tmp_path, monkeypatch):
    monkeypatch.setattr(commands.typer, "confirm", lambda question: question != "Create cluster gridbench?")
    code, output = run(*UP)
    assert code == 2 and "at most" in output and "error: not confirmed" in output
    assert account.changes == [] and not list(tmp_path.iterdir())


def test_up_again_has_nothing_to_ask(run, account):
    run(*UP, "--yes")
    code, output = run(*UP)
    assert code == 0 and "cluster gridbench is complete: nothing to create" in output
    assert account.changes == ["CreateCluster", "CreateNodePool"]


def test_a_second_accelerator_completes_the_cluster(run, account, monkeypatch):
    run(*UP, "--yes")
    questions = []
    monkeypatch.setattr(commands.typer, "confirm", lambda question: questions.append(question) or True)
    code, output = run(*UP[:5], "nvidia-tesla-a100", "--spot")
    assert code == 0 and questions == ["Complete cluster gridbench?"]
    # 3.6 is the price on demand: of spot there is none, and it is the bound
    most = 0.10 + 0.07 + DISK + 0.3 + 0.5 + DISK + 3.6 + DISK
    assert f"at most {most:.2f} USD an hour." in output
    assert "nvidia-tesla-a100-spot create a2-highgpu-1g 1 nvidia-tesla-a100 spot 0 to 1" in output


def test_a_machine_type_without_a_price_is_reported_as_unknown(run, account):
    code, output = run(*UP[:5], "nvidia-tesla-t4", "--yes")
    missing = (
        "without n1-standard-8 with 1 nvidia-tesla-t4, unknown to deployments/prices.yaml in us-central1"
    )
    assert code == 0 and missing in output  # an n1-standard-8 alone has a price, but no T4


def test_a_pool_that_could_not_be_had_is_the_error_and_the_rest_can_be_used(run, account, tmp_path):
    account.failing["nvidia-tesla-t4"] = (8, "[ZONE_RESOURCE_POOL_EXHAUSTED]: none")
    code, output = run(*UP, "--accelerator", "nvidia-tesla-t4", "--yes")
    assert code == 2
    assert (
        "error: 1 of the pools could not be created: making node pool nvidia-tesla-t4: the zone has no capacity"
        in output
    )
    assert "try again later, another --zone" in output and "run `gridbench up gke` again" in output
    assert '"nvidia-l4"}' in output and '"nvidia-tesla-t4"}' not in output
    assert (tmp_path / ".gridbench" / "gke.kubeconfig").exists()
    assert run("status", "gke")[0] == 1


@pytest.mark.parametrize("command", [UP, ("down", "gke", "--zone", ZONE)])
def test_a_cluster_that_gridbench_did_not_make_is_refused(run, account, command):
    account.clusters[NAME] = gke.Cluster(name="gridbench", location=ZONE)
    code, output = run(*command, "--yes")
    assert code == 2 and "that Gridbench did not make" in output and account.changes == []


def test_a_kubeconfig_of_others_is_refused_before_anything_is_made(run, account, tmp_path):
    (tmp_path / "config").write_text("contexts: []")
    code, output = run(*UP, "--kubeconfig", "config", "--yes")
    assert code == 2 and "was not written by Gridbench" in output and not account.requests


def test_an_interrupted_up_says_that_gke_goes_on(run, account, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "build", interrupted)
    code, output = run(*UP, "--yes")
    assert code == 130 and "GKE goes on with it; `gridbench status gke` shows it" in output


def test_status_shows_pools_nodes_costs_and_running_operations(run, account):
    run(*UP, "--max-nodes", "3", "--yes")
    account.clusters[NAME].current_node_count = 3
    account.begin("UPGRADE_MASTER", NAME, lambda _: None)
    code, output = run("status", "gke")
    assert code == 0 and "cluster gridbench in us-central1-a: RUNNING" in output
    each = 0.3 + 0.5 + DISK
    assert f"nvidia-l4 RUNNING g2-standard-8 1 nvidia-l4 on-demand 0 to 3 {each:.3f}" in output
    assert "Nodes now: 3 (1 always on, 2 for pods)" in output
    assert f"Idle: {0.17 + DISK:.2f} USD an hour, {(0.17 + DISK) * HOURS:.0f} USD a month" in output
    assert "under way: UPGRADE_MASTER gridbench" in output


def test_status_without_a_cluster(run, account):
    account.clusters[NAME] = gke.Cluster(name="gridbench", location=ZONE)  # a foreign cluster
    assert run("status", "gke") == (0, "no cluster of Gridbench's in any zone of my-project")


@pytest.mark.parametrize("command", [("status", "gke"), ("down", "gke")])
def test_a_zone_that_does_not_answer_is_no_good_news(run, account, command):
    account.missing_zones = ["us-central1-f"]
    code, output = run(*command)
    assert code == 1 and "not checked: us-central1-f, which did not answer" in output


def test_down_asks_deletes_checks_and_names_the_invisible_resources(run, account, tmp_path, monkeypatch):
    run(*UP, "--yes")
    monkeypatch.setattr(commands.typer, "confirm", lambda question: False)
    code, output = run("down", "gke")
    assert (
        code == 2
        and "cluster gridbench in us-central1-a: RUNNING, pools system, nvidia-l4; nodes: 1" in output
    )
    assert "DeleteCluster" not in account.changes
    code, output = run("down", "gke", "--yes")
    assert code == 0 and output.endswith("down; nothing of gridbench is left in GKE in us-central1-a")
    assert "not checked: disks of volume claims, load balancers' addresses" in output
    assert not account.clusters and not (tmp_path / ".gridbench" / "gke.kubeconfig").exists()
    assert run("down", "gke", "--yes")[0] == 0


def test_down_reports_the_resources_that_are_left(run, account, monkeypatch):
    run(*UP, "--yes")
    monkeypatch.setattr("infra.gke.teardown.take_down", lambda *_: None)
    code, output = run("down", "gke", "--yes")
    assert (
        code == 1
        and "down, but this is left in GKE in us-central1-a; run `gridbench down gke` again" in output
    )


def test_a_right_that_is_missing_is_one_sentence(run, account):
    refused = 'Required "container.clusters.list" permission(s) for "projects/my-project".'
    account.faults = [Fault("ListClusters", StatusCode.PERMISSION_DENIED, refused)]
    code, output = run("status", "gke")
    assert code == 2 and output == (
        "error: Google refuses listing the clusters of my-project: "
        f"{refused.rstrip('.')}; docs/gke.md lists the rights that are needed"
    )


def test_a_spot_price_is_used_if_host_and_gpu_have_spot_prices():
    pool = GkePool("x", "g2-standard-8", "nvidia-l4", 1, spot=True)
    assert gke_text.usd_per_hour(facts(), pool, "us-central1", False) == pytest.approx(0.8 + DISK)
    row = {"provider": "gcp", "region": "us-central1", "source": "test", "date": "2026-11-21"}
    host = Fact(**row, host="g2-standard-8", purchase="spot", usd_per_hour=0.1)
    assert gke_text.usd_per_hour((*facts(), host), pool, "us-central1", False) == pytest.approx(0.3 + DISK)
    assert gke_text.usd_per_hour(facts(), pool, "europe-west4", False) is None
