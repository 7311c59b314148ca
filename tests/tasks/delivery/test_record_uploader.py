import time
from dataclasses import replace
from uuid import uuid4

import pytest

from tasks.delivery.artifact_encoding import TYPE, piece_in, records_in
from tasks.delivery.record_uploader import RecordUploader, UploaderSettings
from tasks.delivery.unsent_records import saved_record
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict

QUICK = UploaderSettings(every_s=0, retry_s=0.01, longest_retry_s=0.02, patience_s=20)


@pytest.fixture
def records(repeats):
    control = Control("abc", "noisy", ("a neighbour",), 0.5, "def", "2026-01-01T00:00:00+00:00")
    return [replace(repeat.failed(Verdict.TIMEOUT, "x"), control=control) for repeat in repeats]


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def sent(api):
    return [record for taken in api.taken for record in records_in(taken["data"], 1000)[0]]


def deliver(records, said, settings=QUICK, **options):
    with RecordUploader(uuid4(), said.append, settings=settings, **options) as uploader:
        for record in records:
            uploader.put(record)


def test_every_record_travels_whole_in_an_artifact_that_no_page_lists(api, records):
    me = uuid4()
    with RecordUploader(me, pytest.fail, settings=QUICK) as uploader:
        for record in records:
            uploader.put(record)
    assert sent(api) == records
    assert {(each["type"], each.get("key"), each["flow_run_id"]) for each in api.taken} == {
        (TYPE, None, str(me))
    }


def test_the_measuring_does_not_wait_for_the_api(api, records):
    api.go_on.clear()
    with RecordUploader(uuid4(), pytest.fail, settings=QUICK) as uploader:
        began = time.monotonic()
        for record in records:
            uploader.put(record)
        assert time.monotonic() - began < 15 and uploader.waiting == len(records)
        api.go_on.set()
    assert sent(api) == records


@pytest.mark.parametrize("status", [500, 503, 401, 404])
def test_an_api_that_is_away_gets_everything_when_it_is_back(api, records, box, status):
    said = []
    with RecordUploader(uuid4(), said.append, settings=QUICK) as uploader:
        api.statuses.extend([status] * 2)
        for record in records:
            uploader.put(record)
        deadline = time.monotonic() + 20
        while uploader.waiting and time.monotonic() < deadline:
            time.sleep(0.01)
    assert sent(api) == records and files(box) == []
    assert len(said) == 2 and "wait on this box" in said[0] and "answers again" in said[1]


def test_a_waiting_record_is_saved_on_the_box(api, records, repeats, box):
    api.statuses.extend([500] * 10**5)
    with RecordUploader(uuid4(), lambda line: None, settings=QUICK) as uploader:
        uploader.put(records[0])
        deadline = time.monotonic() + 20
        while saved_record(repeats[0]) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert saved_record(repeats[0]) == records[0] and saved_record(repeats[1]) is None
        api.statuses.clear()
    assert sent(api) == [records[0]] and saved_record(repeats[0]) is None


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (500, {"deadline": 0.0}),
        (500, {"settings": QUICK.model_copy(update={"patience_s": 0.1})}),
        (403, {}),
    ],
    ids=["the job's deadline", "no deadline", "refused for good"],
)
def test_an_undelivered_record_stays_on_the_box(api, records, repeats, status, options):
    api.statuses.extend([status] * 10**5)
    said = []
    deliver(records, said, **options)
    assert [saved_record(repeat) for repeat in repeats] == records
    assert f"{len(records)} records are kept in" in said[-1]


def test_a_lane_that_is_cancelled_does_not_wait_for_long(api, records):
    api.statuses.extend([500] * 10**5)
    brief = QUICK.model_copy(update={"leave_s": 0.1})
    began = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        RecordUploader(uuid4(), lambda line: None, settings=brief) as uploader,
    ):
        uploader.put(records[0])
        raise KeyboardInterrupt
    assert time.monotonic() - began < 15  # its patience is 20 s


def test_requests_that_are_too_large_are_made_smaller(api, records, box):
    api.limit = 4 * max(len(record.to_json()) for record in records)
    api.go_on.clear()  # all of them wait, and would go together
    with RecordUploader(uuid4(), pytest.fail, settings=QUICK) as uploader:
        for record in records:
            uploader.put(record)
        api.go_on.set()
    assert sent(api) == records and files(box) == []


def test_a_record_that_is_too_large_goes_in_pieces(api, records):
    large = replace(records[0], monitor={"t_s": tuple(number / 7 for number in range(2000))})
    api.limit = 12_000
    deliver([large], [], QUICK)
    pieces = [piece_in(each["data"]) for each in api.taken]
    whole = [piece for piece in pieces if piece.parcel == pieces[-1].parcel]
    assert len(whole) == whole[0].pieces > 2
    text = "".join(piece.text for piece in sorted(whole, key=lambda p: p.place))
    assert records_in(text, 1) == ([large], None)


@pytest.mark.parametrize(("pace_s", "least_s"), [(30.0, 0.0), (0.0, 30.0)])
def test_a_pace_puts_records_together_and_so_do_the_settings(api, records, pace_s, least_s):
    settings = QUICK.model_copy(update={"every_s": least_s})
    with RecordUploader(uuid4(), pytest.fail, every_s=pace_s, settings=settings) as uploader:
        uploader.put(records[0])
        deadline = time.monotonic() + 20
        while not api.taken and time.monotonic() < deadline:
            time.sleep(0.01)
        for record in records[1:]:
            uploader.put(record)
            time.sleep(0.1)
    assert sent(api) == records and len(api.taken) == 2  # available records at once, the others at the end


def test_a_log_that_fails_stops_no_record(api, records):
    def broken(line):
        raise OSError("the log is gone")

    api.statuses.extend([500])
    with RecordUploader(uuid4(), broken, settings=QUICK) as uploader:
        for record in records:
            uploader.put(record)
    assert sent(api) == records


def test_a_record_in_a_hanging_request_is_saved_on_the_box(api, records, repeats, box, monkeypatch):
    monkeypatch.setattr("tasks.delivery.record_uploader.KEEP_S", 0.1)
    api.go_on.clear()
    with RecordUploader(uuid4(), pytest.fail, settings=QUICK) as uploader:
        uploader.put(records[0])
        deadline = time.monotonic() + 20
        while saved_record(repeats[0]) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert saved_record(repeats[0]) == records[0]
        uploader.put(records[1])
        assert saved_record(repeats[1]) == records[1]
        api.go_on.set()
    assert sent(api) == records[:2] and files(box) == []
