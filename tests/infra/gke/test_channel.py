from datetime import UTC, datetime, timedelta

import pytest
from google.api_core.exceptions import InvalidArgument
from google.cloud import container_v1 as gke
from google.protobuf.timestamp_pb2 import Timestamp

from infra.gke.build import build
from infra.gke.clusters import cluster_message, find
from infra.gke.plan import make_plan
from infra.gke.pools import GkePool, pool_message, system_pool
from tests.emulators.gke import reasons
from tests.emulators.gke.quick import NAME, place, quick_gke, up, wishes

Channel = gke.ReleaseChannel.Channel
Exclusion = gke.MaintenanceExclusionOptions
NOW = datetime.now(UTC)


@pytest.fixture
def account(monkeypatch):
    with quick_gke(monkeypatch) as account:
        yield account


def silent(_):
    pass


def managed(pool):
    return pool.management.auto_repair, pool.management.auto_upgrade


def of_old(account):
    account.old_customer = True
    message = cluster_message(wishes(), "my-project")
    message.release_channel.channel = Channel.UNSPECIFIED
    message.maintenance_policy = gke.MaintenancePolicy()
    where = place()
    where.client.create_cluster(parent=where.parent, cluster=message)


def test_a_new_cluster_is_in_a_channel_and_its_pools_are_kept_by_gke(account):
    cluster, failed = up(wishes())
    assert not failed and cluster.channel == "REGULAR"
    assert account.called("CreateCluster")[0].cluster.release_channel.channel == Channel.REGULAR
    assert [managed(pool) for pool in account.clusters[NAME].node_pools] == [(True, True)] * 2


def test_an_exclusion_postpones_node_restarts_as_long_as_gke_allows(account):
    cluster, _ = up(wishes())
    window = account.called("CreateCluster")[0].cluster.maintenance_policy.window
    (exclusion,) = window.maintenance_exclusions.values()
    options = exclusion.maintenance_exclusion_options
    assert options.scope == Exclusion.Scope.NO_MINOR_OR_NODE_UPGRADES
    assert options.end_time_behavior == Exclusion.EndTimeBehavior.UNTIL_END_OF_SUPPORT
    assert not exclusion.end_time and abs(exclusion.start_time - datetime.now(UTC)) < timedelta(minutes=5)
    assert cluster.pinned and not make_plan(place(), wishes(), silent).notes


def test_a_cluster_in_no_channel_still_works_and_nothing_restarts_its_nodes(account):
    of_old(account)
    cluster, failed = up(wishes())
    assert not failed and cluster.channel == "" and cluster.pinned
    assert managed(account.called("CreateNodePool")[0].node_pool) == (False, False)


def test_pools_follow_the_channel_that_the_cluster_was_made_in(account):
    where = place()
    plan = make_plan(where, wishes(), silent)
    of_old(account)  # meanwhile, by a version from before
    cluster, failed = build(where, plan, silent)
    assert not failed and cluster.channel == ""
    assert managed(account.called("CreateNodePool")[0].node_pool) == (False, False)


def exclusion(scope, begins=NOW, ends=None, lasting=False):
    times = {"start_time": stamp(begins)} | ({"end_time": stamp(ends)} if ends else {})
    behavior = Exclusion.EndTimeBehavior.UNTIL_END_OF_SUPPORT if lasting else 0
    options = Exclusion(scope=scope, end_time_behavior=behavior)
    return gke.TimeWindow(maintenance_exclusion_options=options, **times)


def stamp(moment):
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("found", "pinned"),
    [
        (exclusion(Exclusion.Scope.NO_MINOR_OR_NODE_UPGRADES, lasting=True), True),
        (exclusion(Exclusion.Scope.NO_MINOR_OR_NODE_UPGRADES, ends=NOW + DAY), True),
        (exclusion(Exclusion.Scope.NO_UPGRADES, ends=NOW + DAY), True),
        (exclusion(Exclusion.Scope.NO_MINOR_UPGRADES, ends=NOW + DAY), False),
        (exclusion(Exclusion.Scope.NO_UPGRADES, NOW - 2 * DAY, NOW - DAY), False),
        (exclusion(Exclusion.Scope.NO_UPGRADES, NOW + DAY, NOW + 2 * DAY), False),
        (None, False),
    ],
)
def test_a_missing_maintenance_exclusion_is_reported_with_its_command(account, found, pinned):
    up(wishes())
    window = gke.MaintenanceWindow(maintenance_exclusions={"mine": found} if found else {})
    account.clusters[NAME].maintenance_policy = gke.MaintenancePolicy(window=window)
    assert find(place(), "gridbench").pinned is pinned
    notes = make_plan(place(), wishes(), silent).notes
    assert len(notes) == (0 if pinned else 1)
    if notes:
        assert "is in release channel REGULAR without a maintenance exclusion" in notes[0]
        assert "gcloud container clusters update gridbench --project my-project" in notes[0]
        assert "--add-maintenance-exclusion-scope no_minor_or_node_upgrades" in notes[0]


def create(message):
    where = place()
    where.client.create_cluster(parent=where.parent, cluster=message)


def test_gke_refuses_a_new_cluster_in_no_channel(account):
    message = cluster_message(wishes(), "my-project")
    message.release_channel.channel = Channel.UNSPECIFIED
    with pytest.raises(InvalidArgument) as refused:
        create(message)
    assert refused.value.message == reasons.NO_CHANNEL and not account.clusters


def test_gke_puts_a_cluster_that_names_no_channel_in_regular(account):
    message = cluster_message(wishes(), "my-project")
    del message.release_channel
    create(message)
    assert account.clusters[NAME].release_channel.channel == Channel.REGULAR


def test_gke_refuses_a_pool_in_a_channel_that_is_not_upgraded(account):
    up(wishes())
    pool = pool_message(
        GkePool("t4", "n1-standard-8", "nvidia-tesla-t4", 1, driver="LATEST"), kept_by_gke=False
    )
    with pytest.raises(InvalidArgument) as refused:
        place().client.create_node_pool(parent=NAME, node_pool=pool)
    assert refused.value.message == "Auto_upgrade cannot be false when release_channel REGULAR is set."


def test_gke_refuses_such_a_pool_in_a_new_cluster_too(account):
    message = cluster_message(wishes(), "my-project")
    message.node_pools = [pool_message(system_pool(), kept_by_gke=False)]
    with pytest.raises(InvalidArgument, match="Auto_upgrade cannot be false"):
        create(message)


def test_gke_refuses_the_exclusion_in_no_channel(account):
    account.old_customer = True
    message = cluster_message(wishes(), "my-project")
    message.release_channel.channel = Channel.UNSPECIFIED
    with pytest.raises(InvalidArgument, match="NO_MINOR_OR_NODE_UPGRADES requires a release channel"):
        create(message)


def test_gke_refuses_an_exclusion_without_an_end(account):
    message = cluster_message(wishes(), "my-project")
    window = message.maintenance_policy.window
    window.maintenance_exclusions["gridbench"].maintenance_exclusion_options.end_time_behavior = 0
    with pytest.raises(InvalidArgument, match="must have an end time"):
        create(message)
