import re
from datetime import UTC, datetime, timedelta

import pytest

from infra.lambda_cloud import lease as leases
from infra.lambda_cloud.errors import LambdaError
from infra.lambda_cloud.lease import Lease, deadline_of, lease_of, new_lease
from infra.lambda_cloud.models import LambdaInstance
from tasks.dispatch.rental_labels import RentalStatus

NOON = datetime(2026, 9, 20, 12, tzinfo=UTC)
LEASE = Lease("nightly-7", "lambda-1x-a10", NOON, NOON + timedelta(hours=2), 1.29, "gridbench-x")
KIND = {"name": "gpu_1x_a10", "price_cents_per_hour": 129}


def instance(tags, name="gridbench-x", **options):
    rows = [{"key": key, "value": value} for key, value in tags.items()]
    base = {"id": "i-1", "status": "active", "region": {"name": "us-east-1"}, "instance_type": KIND}
    return LambdaInstance.model_validate({**base, "name": name, "tags": rows, **options})


def test_a_lease_comes_back_from_its_tags():
    assert lease_of(instance(LEASE.tags)) == LEASE


def test_tags_are_such_as_the_api_takes():
    for key, value in LEASE.tags.items():
        assert re.fullmatch(r"[a-z][a-z0-9-:]+", key) and len(key) <= 55
        assert len(value) <= 128


@pytest.mark.parametrize("tags", [{}, {"owner": "someone"}, {leases.UNTIL: "2020-01-01T00:00:00+00:00"}])
def test_an_instance_without_our_tags_has_no_lease(tags):
    assert lease_of(instance(tags)) is None


def test_without_any_tags_the_name_says_the_deadline():
    made = new_lease("r", "lambda-1x-a10", NOON)
    found = lease_of(instance({}, made.attempt(2)))
    assert (found.until, found.since, found.usd_per_hour) == (NOON, None, 1.29)
    assert made.owns(instance({}, found.name)) and found.overdue(NOON)
    assert lease_of(instance({"owner": "someone"}, made.name)) is None


def test_null_instead_of_tags_is_no_tags():
    assert lease_of(LambdaInstance.model_validate({**instance({}).model_dump(), "tags": None})) is None


BROKEN = ["", "soon", "2026-13-45", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00", "nan"]


@pytest.mark.parametrize("text", BROKEN)
def test_a_deadline_that_cannot_be_read_is_a_day_after_the_start(text):
    found = lease_of(instance(LEASE.tags | {leases.UNTIL: text}))
    assert found.until == NOON + timedelta(hours=24)
    assert not found.overdue(NOON + timedelta(hours=23))
    assert found.overdue(NOON + timedelta(hours=24))


@pytest.mark.parametrize("text", BROKEN)
def test_with_neither_start_nor_deadline_it_is_overdue(text):
    found = lease_of(instance(LEASE.tags | {leases.UNTIL: text, leases.SINCE: text}))
    assert found.overdue(NOON)
    assert found.cost_usd(NOON) is None


def test_a_deadline_counts_where_the_start_cannot_be_read():
    found = lease_of(instance(LEASE.tags | {leases.SINCE: "?"}))
    assert (found.until, found.since) == (LEASE.until, None)


@pytest.mark.parametrize("text", ["", "free", "nan", "-1", "inf"])
def test_a_price_that_cannot_be_read_is_the_types_own(text):
    assert lease_of(instance(LEASE.tags | {leases.USD_PER_HOUR: text})).usd_per_hour == 1.29


def test_names_that_cannot_be_read_are_unknown():
    found = lease_of(instance({leases.RUN: "", leases.HARDWARE: "x" * 500}))
    assert (found.run, len(found.hardware)) == ("unknown", 128)


def test_time_without_zone_is_universal_time():
    assert lease_of(instance(LEASE.tags | {leases.SINCE: "2026-09-20T12:00:00"})).since == NOON


@pytest.mark.parametrize(
    ("seconds", "usd"), [(-60, 0), (0, 0), (1, 1.29 / 60), (60, 1.29 / 60), (61, 2.58 / 60), (3600, 1.29)]
)
def test_a_minute_that_has_begun_is_paid(seconds, usd):
    later = NOON + timedelta(seconds=seconds)
    assert LEASE.cost_usd(later) == pytest.approx(usd)
    assert RentalStatus(usd_per_hour=1.29, since=NOON).cost_usd(later) == pytest.approx(
        usd
    )  # the budget's part


@pytest.mark.parametrize(
    "hardware", ["lambda-1x-a10", "Lambda 8× H100 with a very long name indeed " * 2, "×"]
)
def test_names_fit_and_are_unique_and_tell_the_deadline(hardware):
    first, second = (new_lease("run", hardware, NOON) for _ in range(2))
    assert first.name != second.name
    assert all(len(first.attempt(number)) <= 64 for number in range(1, 10))
    assert deadline_of(first.name) == deadline_of(first.attempt(3)) == NOON


@pytest.mark.parametrize(
    "name", ["", "laptop", "gridbench", "gridbench-laptop", "gridbench-20261399t250000z-a10-0123abcd"]
)
def test_other_keys_have_no_deadline(name):
    assert deadline_of(name) is None


def test_a_lease_owns_only_instances_of_its_own_name():
    one = new_lease("run", "a10", NOON)
    named = [one.name, one.attempt(2), one.name + "-22", one.name + "x", "", "other", None]
    assert [one.owns(instance({}, name=name)) for name in named] == [True, True, *[False] * 5]
    nameless = lease_of(instance(LEASE.tags, name=None))
    assert not nameless.owns(instance({}, name="")) and not nameless.owns(instance({}, name="other"))


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("run", ("", "a10", NOON, 1.0)),
        ("run", ("x" * 129, "a10", NOON, 1.0)),
        ("hardware", ("run", "", NOON, 1.0)),
        ("time zone", ("run", "a10", datetime(2026, 9, 20), 1.0)),
        ("usd_per_hour", ("run", "a10", NOON, float("nan"))),
        ("usd_per_hour", ("run", "a10", NOON, -1.0)),
    ],
)
def test_a_lease_that_does_not_fit_is_refused(field, arguments):
    with pytest.raises(LambdaError, match=field):
        new_lease(*arguments)
