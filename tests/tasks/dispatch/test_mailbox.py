"""Records on their way: keys that the API takes, and what stays behind on a box is found again."""

import json
import re
from dataclasses import replace

import httpx
import pytest

from tasks.dispatch import mailbox
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Record, Verdict


@pytest.fixture
def repeats(plan):
    return plan.repeats_on(plan.hardware[0])


@pytest.fixture
def unsent(tmp_path, monkeypatch):
    monkeypatch.setattr(mailbox, "UNSENT", tmp_path / "unsent")


def test_keys_are_what_the_api_takes_and_tell_repeats_apart(repeats):
    keys = [mailbox.key_of(repeat.failed(Verdict.TIMEOUT, "x")) for repeat in repeats]
    assert len(set(keys)) == len(repeats)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


def controlled(repeat):
    control = Control("abc", "noisy", ("a neighbour",), 0.5, "def", "2026-01-01T00:00:00+00:00")
    return replace(repeat.failed(Verdict.TIMEOUT, "x"), control=control)


def test_a_control_travels_and_is_stored_with_its_record(repeats, store, monkeypatch):
    sent = []

    class Taken:
        def __init__(self, data, **fields):
            sent.append(json.dumps(data))

        def create(self):
            return None

    monkeypatch.setattr(mailbox, "Artifact", Taken)
    record = controlled(repeats[0])
    mailbox.send(record, pytest.fail)
    came = Record.from_json(sent[0])
    assert came == record and store.add(came)
    assert store.records() == ([record], [])


def test_a_record_that_nobody_takes_stays_on_the_box_and_is_found_again(repeats, unsent, monkeypatch):
    class Refusing:
        def __init__(self, **fields):
            pass

        def create(self):
            raise httpx.ConnectError("away")

    monkeypatch.setattr(mailbox, "Artifact", Refusing)
    said = []
    record = controlled(repeats[0])
    assert mailbox.kept(repeats[0]) is None
    mailbox.send(record, said.append, patience_s=0.0)
    assert "is kept in" in said[-1]
    assert mailbox.kept(repeats[0]) == record
    assert mailbox.kept(repeats[1]) is None
