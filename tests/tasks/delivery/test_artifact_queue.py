from types import SimpleNamespace
from uuid import uuid4

import pytest

from tasks.delivery import artifact_queue
from tasks.delivery.artifact_encoding import pieces_of, text_of
from tasks.delivery.artifact_queue import ArtifactQueue
from tests.tasks.dispatch.fake_prefect import FakePrefect
from workloads.harness.records.record import Verdict


@pytest.fixture
def prefect():
    return FakePrefect()


JOB = SimpleNamespace(id=uuid4())


async def test_pieces_are_put_together_in_any_order_of_arrival(prefect, repeats):
    text = text_of(repeat.failed(Verdict.CRASHED, "é" * 50) for repeat in repeats)
    pieces = pieces_of(text, 1000)
    queue = ArtifactQueue(prefect)
    for piece in pieces[1:]:
        prefect.send(JOB, piece)
    assert await queue.new([JOB.id]) == []
    prefect.send(JOB, pieces[0])
    (upload,) = await queue.new([JOB.id])
    assert upload.text == text
    await queue.stored(upload)
    assert prefect.artifacts == [] and len(pieces) > 5


async def test_pieces_of_two_jobs_are_never_mixed(prefect, repeats):
    one, other = pieces_of("a" * 10, 5)
    prefect.send(JOB, one)
    prefect.send(SimpleNamespace(id=(stranger := uuid4())), other)
    assert await ArtifactQueue(prefect).new([JOB.id, stranger]) == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {"parcel": "a", "place": 0, "pieces": 10**9, "text": "b"},
        {"parcel": "a", "place": 2, "pieces": 1, "text": "b"},
        {"parcel": 1, "place": 0, "pieces": 1, "text": "b"},
        {"parcel": "a", "place": -1, "pieces": 1, "text": "b"},
    ],
)
async def test_nonsense_is_a_parcel_like_any_other(prefect, data):
    prefect.send(JOB, data)
    (upload,) = await ArtifactQueue(prefect).new([JOB.id])
    assert upload.text == str(data)


def incomplete(number, text="x" * 10):
    return {"parcel": str(number), "place": 0, "pieces": 2, "text": text}


async def test_pieces_that_never_become_whole_are_fetched_once_and_deleted(prefect, monkeypatch):
    queue = ArtifactQueue(prefect)
    for number in range(50):
        prefect.send(JOB, incomplete(number))
    for _ in range(6):
        assert await queue.new([JOB.id]) == []
    assert len(prefect.fetched) == 50 and len(prefect.artifacts) == 50
    monkeypatch.setattr(artifact_queue, "HELD_S", 0)
    assert await queue.new([JOB.id]) == [] and not prefect.artifacts and not queue._held
    assert len(prefect.fetched) == 50


async def test_held_pieces_are_limited_per_job_and_other_jobs_keep_theirs(prefect, monkeypatch, repeats):
    monkeypatch.setattr(artifact_queue, "MOST_HELD_BYTES", 1000)
    queue, honest = ArtifactQueue(prefect), SimpleNamespace(id=uuid4())
    text = text_of([repeats[0].failed(Verdict.CRASHED, "x")])
    first, second = pieces_of(text, len(text) // 2 + 1)
    prefect.send(honest, first)
    for number in range(30):
        prefect.send(JOB, incomplete(number, "x" * 100))
    both = [JOB.id, honest.id]
    for _ in range(2):
        assert await queue.new(both) == []
    assert len(prefect.artifacts) < 12 and len(prefect.fetched) == 31
    prefect.send(honest, second)
    (upload,) = await queue.new(both)
    assert upload.text == text


async def test_a_piece_that_comes_twice_is_deleted(prefect):
    queue = ArtifactQueue(prefect)
    for _ in range(3):
        prefect.send(JOB, incomplete("a"))
    for _ in range(2):
        assert await queue.new([JOB.id]) == []
    assert len(prefect.artifacts) == 1


async def test_a_look_that_finds_nothing_is_one_request(prefect, repeats):
    queue = ArtifactQueue(prefect)
    prefect.send(JOB, text_of([repeats[0].failed(Verdict.CRASHED, "x")]))
    (upload,) = await queue.new([JOB.id])
    await queue.stored(upload)
    prefect.troubles.extend([None, OSError("a second one")])
    assert await queue.new([JOB.id]) == [] and len(prefect.troubles) == 1
