import pytest
from google.cloud import container_v1 as gke
from grpc import StatusCode

from infra.gke import operations
from infra.gke.api import EVERYWHERE, connect
from infra.gke.build import build
from infra.gke.clusters import cluster_message, find, list_ours, place_of
from infra.gke.errors import ClusterBusy, Foreign, GkeError, GkeUnreachable, PermissionMissing, Stockout
from infra.gke.operations import TimedOut
from infra.gke.plan import make_plan
from infra.gke.teardown import left, take_down
from tests.emulators.gke.account import Fault
from tests.emulators.gke.quick import NAME, ZONE, place, quick_gke, up, wishes

STOCKOUT = (8, "Current errors: [ZONE_RESOURCE_POOL_EXHAUSTED]: Instance creation failed")


@pytest.fixture
def account(monkeypatch):
    with quick_gke(monkeypatch) as account:
        yield account


def silent(_):
    pass


def down():
    take_down(place(), "gridbench", silent)


def pools(cluster):
    return {pool.name: pool.status for pool in cluster.pools}


def foreign(account):
    account.clusters[NAME] = gke.Cluster(
        name="gridbench", location=ZONE, status=gke.Cluster.Status.RUNNING, resource_labels={"team": "x"}
    )


def test_a_cluster_is_made_and_its_operations_are_followed_to_their_end(account):
    cluster, failed = up(wishes("nvidia-l4", "nvidia-tesla-t4"))
    assert not failed and cluster.well
    assert pools(cluster) == dict.fromkeys(("system", "nvidia-l4", "nvidia-tesla-t4"), "RUNNING")
    assert account.changes == ["CreateCluster", "CreateNodePool", "CreateNodePool"]
    assert len(account.called("GetOperation")) == 3 * account.looks
    assert {work.operation.status.name for work in account.works.values()} == {"DONE"}


def test_existing_pools_are_left_alone_and_missing_pools_are_made(account):
    up(wishes())
    plan = make_plan(place(), wishes(), silent)
    assert not plan.changes and {pool.name for pool in plan.kept} == {"system", "nvidia-l4"}
    cluster, failed = up(wishes(spot=True))
    assert not failed and set(pools(cluster)) == {"system", "nvidia-l4", "nvidia-l4-spot"}
    assert account.changes == ["CreateCluster", "CreateNodePool", "CreateNodePool"]


def test_a_pool_that_differs_is_named_and_stays(account):
    up(wishes())
    plan = make_plan(place(), wishes(max_nodes=4), silent)
    assert not plan.changes
    (note,) = plan.notes
    assert "pool nvidia-l4 is there and stays as it is, though max_nodes is 1, not 4" in note


def test_a_pool_out_of_stock_does_not_cost_the_others(account):
    account.failing["nvidia-l4"] = STOCKOUT
    cluster, failed = up(wishes("nvidia-l4", "nvidia-tesla-t4"))
    assert pools(cluster) == {"system": "RUNNING", "nvidia-l4": "ERROR", "nvidia-tesla-t4": "RUNNING"}
    (error,) = failed
    assert type(error) is Stockout and "making node pool nvidia-l4: the zone has no capacity now" in str(
        error
    )
    assert not cluster.well


def test_a_failed_pool_is_made_again(account):
    account.failing["nvidia-l4"] = STOCKOUT
    up(wishes())
    assert "pool nvidia-l4 is in ERROR" in make_plan(place(), wishes(), silent).notes[0]
    cluster, failed = up(wishes())
    assert not failed and cluster.well
    assert account.changes[2:] == ["DeleteNodePool", "CreateNodePool"]


def test_an_accelerator_that_the_zone_lacks_does_not_cost_the_others(account):
    account.absent = {"nvidia-tesla-p4"}
    cluster, (error,) = up(wishes("nvidia-tesla-p4", "nvidia-l4"))
    assert "the zone does not have it" in str(error) and set(pools(cluster)) == {"system", "nvidia-l4"}


def test_without_the_right_the_other_pools_are_not_tried(account):
    account.faults = [Fault("CreateNodePool", StatusCode.PERMISSION_DENIED, "No.")]
    with pytest.raises(PermissionMissing):
        up(wishes("nvidia-l4", "nvidia-tesla-t4"))
    assert account.changes == ["CreateCluster", "CreateNodePool"]


def test_a_cluster_that_failed_can_only_be_taken_down(account):
    account.failing["gridbench"] = STOCKOUT
    with pytest.raises(GkeError, match="gridbench down gke` deletes the parts that were created"):
        up(wishes())
    with pytest.raises(
        GkeError, match=r"is in ERROR .*it can only be deleted; `gridbench down gke`"
    ) as again:
        up(wishes())
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in str(again.value)
    down()
    assert not account.clusters and left(place(), "gridbench") == []


def test_down_after_a_half_failed_up_leaves_nothing(account):
    account.failing["nvidia-l4"] = STOCKOUT
    up(wishes("nvidia-l4", "nvidia-tesla-t4"))
    down()
    assert not account.clusters and left(place(), "gridbench") == []
    down()
    assert account.changes.count("DeleteCluster") == 1


def test_an_interrupted_up_is_waited_for_and_then_taken_down(account):
    begin()
    down()
    assert not account.clusters and left(place(), "gridbench") == []


def begin():
    """Leave the state of an `up` interrupted right after the cluster's request."""
    where = place()
    where.client.create_cluster(parent=where.parent, cluster=cluster_message(wishes(), where.project))


def test_an_interrupted_up_is_completed(account):
    begin()
    told = []
    cluster, failed = up(wishes(), told.append)
    assert not failed and cluster.well
    assert "waiting for CREATE_CLUSTER gridbench, which is under way" in told
    assert account.changes == ["CreateCluster", "CreateNodePool"]


def test_up_during_a_deletion_waits_and_makes_it_anew(account):
    up(wishes())
    place().client.delete_cluster(name=NAME)
    cluster, failed = up(wishes())
    assert not failed and cluster.well
    assert account.changes.count("CreateCluster") == 2


def test_down_during_a_deletion_waits_for_it(account):
    up(wishes())
    place().client.delete_cluster(name=NAME)
    assert left(place(), "gridbench")[1:] == ["operation under way: DELETE_CLUSTER gridbench"]
    down()
    assert not account.clusters and account.changes.count("DeleteCluster") == 1


@pytest.mark.parametrize("method", ["CreateCluster", "CreateNodePool"])
def test_an_answer_that_was_lost_after_the_deed_makes_nothing_twice(account, method):
    account.faults = [Fault(method, StatusCode.UNAVAILABLE, "connection reset", after=True)]
    cluster, failed = up(wishes())
    assert not failed and cluster.well and pools(cluster) == {"system": "RUNNING", "nvidia-l4": "RUNNING"}
    assert account.changes.count(method) > 1  # it was asked for again
    assert [work.operation.operation_type.name for work in account.works.values()] == [
        "CREATE_CLUSTER",
        "CREATE_NODE_POOL",
    ]


def test_an_answer_that_was_lost_hides_no_failure(account):
    account.faults = [Fault("CreateNodePool", StatusCode.UNAVAILABLE, "connection reset", after=True)]
    account.failing["nvidia-l4"] = STOCKOUT
    _, failed = up(wishes())
    assert [type(error) for error in failed] == [Stockout]


def test_a_deletion_whose_answer_was_lost_is_followed(account):
    up(wishes())
    account.faults = [Fault("DeleteCluster", StatusCode.UNAVAILABLE, "connection reset", after=True)]
    down()
    assert not account.clusters and left(place(), "gridbench") == []


def test_a_deletion_that_fails_is_reported_and_can_be_repeated(account):
    up(wishes())
    account.failing["gridbench"] = (9, "Firewall rule in use")
    with pytest.raises(GkeError, match="Firewall rule in use; run `gridbench down gke` again"):
        down()
    assert left(place(), "gridbench")
    down()
    assert left(place(), "gridbench") == []


def test_a_cluster_that_is_busy_is_waited_for(account):
    up(wishes())
    account.begin("UPGRADE_MASTER", NAME, silent)
    told = []
    where = place()
    plan = make_plan(where, wishes("nvidia-tesla-t4"), told.append)
    assert "waiting for UPGRADE_MASTER gridbench, which is under way" in told
    account.begin("UPGRADE_MASTER", NAME, silent)  # and another, after the plan
    cluster, failed = build(where, plan, silent)
    assert not failed and pools(cluster)["nvidia-tesla-t4"] == "RUNNING"
    assert account.changes[2:] == ["CreateNodePool", "CreateNodePool"]


def test_a_cluster_that_stays_busy_for_no_reason_is_given_up(account):
    up(wishes())
    account.faults = [Fault("CreateNodePool", StatusCode.FAILED_PRECONDITION, "Not now.", times=99)]
    with pytest.raises(ClusterBusy, match="the cluster is not ready for it: Not now; wait until"):
        up(wishes("nvidia-tesla-t4"))
    assert account.changes.count("CreateNodePool") == 1 + operations.TRIES


def test_gke_that_is_away_is_given_up(account):
    account.faults = [Fault("CreateCluster", StatusCode.UNAVAILABLE, "no route", times=99)]
    with pytest.raises(GkeUnreachable, match="GKE does not answer"):
        up(wishes())
    assert account.changes.count("CreateCluster") == operations.TRIES and not account.clusters


def test_an_operation_that_does_not_end_is_given_up_at_the_deadline(account, monkeypatch):
    account.stuck = True
    monkeypatch.setattr(operations, "DEADLINE_S", 0.0)
    with pytest.raises(GkeError, match=r"making cluster gridbench is still (PENDING|RUNNING) after 0 min"):
        up(wishes())
    with pytest.raises(TimedOut, match="CREATE_CLUSTER gridbench is still"):
        down()
    account.stuck = False
    monkeypatch.setattr(operations, "DEADLINE_S", 60.0)
    down()
    assert not account.clusters


def test_a_foreign_cluster_is_neither_changed_nor_deleted(account):
    foreign(account)
    for attempt in (lambda: up(wishes()), down):
        with pytest.raises(Foreign, match=r"that Gridbench did not make .*no label managed-by=gridbench"):
            attempt()
    assert account.changes == [] and NAME in account.clusters


def test_a_foreign_cluster_created_after_the_plan_is_left_alone(account):
    where = place()
    plan = make_plan(where, wishes(), silent)
    foreign(account)
    with pytest.raises(Foreign):
        build(where, plan, silent)
    assert account.changes == ["CreateCluster"] and not account.clusters[NAME].node_pools


def test_only_ours_are_listed_and_zones_that_did_not_answer_are_named(account):
    up(wishes())
    account.clusters[f"{NAME}-2"] = gke.Cluster(name="gridbench-2", location=ZONE)
    account.missing_zones = ["us-central1-f"]
    ours, unheard = list_ours(place())
    assert [cluster.name for cluster in ours] == ["gridbench"] and unheard == ("us-central1-f",)


def test_a_name_in_two_zones_needs_the_zone(account):
    up(wishes())
    cluster = find(place(), "gridbench")
    other = account.clusters[NAME.replace(ZONE, "us-east1-b")] = gke.Cluster(account.clusters[NAME])
    other.location = "us-east1-b"
    everywhere = connect("my-project", EVERYWHERE)
    assert place_of(everywhere, "gridbench", [cluster]).zone == ZONE
    with pytest.raises(GkeError, match="in each of us-central1-a, us-east1-b: name one with --zone"):
        place_of(everywhere, "gridbench", list_ours(everywhere)[0])
