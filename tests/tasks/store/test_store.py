import errno
import os

import pytest

from tasks.errors import GridbenchError
from tasks.store.store import Store, runs
from workloads.harness.records.record import Verdict


@pytest.fixture
def records(plan):
    return [repeat.failed(Verdict.TIMEOUT, "for a test") for repeat in plan.repeats_on(plan.hardware[0])]


def test_records_come_back_in_the_plans_order(store, plan, records):
    assert all(store.add(record) for record in records)
    found, odd = store.records()
    assert not odd and sorted(found, key=lambda r: r.order) == records
    assert [r.cell.id for r in found] == [c.id for c in plan.cells[: len(plan.cases)] for _ in range(2)]


def test_a_record_is_written_once(store, records):
    path = store.folder / "records" / "local-cpu-1"
    store.add(records[0])
    before = {p: p.read_bytes() for p in path.rglob("*.json")}
    assert not store.add(records[0])
    assert {p: p.read_bytes() for p in path.rglob("*.json")} == before


def test_an_unreadable_record_is_named_and_made_room_for(store, records):
    store.add(records[0])
    (path,) = (store.folder / "records").rglob("*.json")
    path.write_text(path.read_text()[:40])
    found, odd = store.records()
    assert not found and str(path) in odd[0] and "not JSON" in odd[0]
    assert store.add(records[0])
    assert store.records() == ([records[0]], [])
    assert path.with_suffix(".unreadable").exists()


def test_a_full_disk_is_a_sentence_and_leaves_nothing_half_written(store, records, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(GridbenchError, match="No space left on device"):
        store.add(records[0])
    assert not [p for p in (store.folder / "records").rglob("*") if p.is_file()]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path, plan):
    (tmp_path / "file").write_text("")
    with pytest.raises(GridbenchError, match=r"results: .* can't be written \(Not a directory\)"):
        Store.create(tmp_path / "file" / "results", plan)


def test_a_run_is_found_by_its_beginning(store, plan, tmp_path):
    results = tmp_path / "results"
    assert Store.open(results, plan.run[:10]).plan == plan
    assert runs(results) == [plan.run]
    Store.create(results, plan.model_copy(update={"run": plan.run + "x"}))
    assert Store.open(results, plan.run).plan.run == plan.run
    with pytest.raises(GridbenchError, match="matches"):
        Store.open(results, plan.run[:10])


@pytest.mark.parametrize("name", ["", "nope", "../x", ".", "a**", "["])
def test_an_unknown_run_is_a_sentence(tmp_path, name):
    with pytest.raises(GridbenchError, match="run "):
        Store.open(tmp_path, name)


def test_a_record_that_is_set_aside_makes_room_and_stays(store, records):
    store.add(records[0])
    store.set_aside(records[0])
    assert store.records() == ([], []) and len(list(store.folder.rglob("*.timeout"))) == 1
    assert store.add(records[0])


def test_an_unreadable_plan_is_reported_in_a_sentence(store, records):
    (store.folder / "plan.json").unlink()
    with pytest.raises(GridbenchError, match=r"plan\.json can't be read \(No such file"):
        store.records()


def test_a_refused_text_is_kept_without_control_characters(store):
    path = store.keep_aside("job-1", "{\x1b[2J\x1b]0;owned\x07\n  \u202e}\u2028")
    assert path.read_text() == "{\n  } \n"
