"""Records on their way: keys that the API takes, and what stays behind on a box is found again."""

import re

import httpx
import pytest

from tasks import courier
from workloads.harness.record import Verdict


@pytest.fixture
def repeats(plan):
    return plan.repeats_on(plan.hardware[0])


@pytest.fixture
def unsent(tmp_path, monkeypatch):
    monkeypatch.setattr(courier, "UNSENT", tmp_path / "unsent")


def test_keys_are_what_the_api_takes_and_tell_repeats_apart(repeats):
    keys = [courier.key_of(repeat.failed(Verdict.TIMEOUT, "x")) for repeat in repeats]
    assert len(set(keys)) == len(repeats)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


def test_a_record_that_nobody_takes_stays_on_the_box_and_is_found_again(repeats, unsent, monkeypatch):
    class Refusing:
        def __init__(self, **fields):
            pass

        def create(self):
            raise httpx.ConnectError("away")

    monkeypatch.setattr(courier, "Artifact", Refusing)
    said = []
    record = repeats[0].failed(Verdict.TIMEOUT, "too slow")
    assert courier.kept(repeats[0]) is None
    courier.send(record, said.append, patience_s=0.0)
    assert "is kept in" in said[-1]
    assert courier.kept(repeats[0]) == record
    assert courier.kept(repeats[1]) is None
