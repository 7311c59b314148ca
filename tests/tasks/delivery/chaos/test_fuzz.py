import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.delivery.artifact_encoding import piece_in, pieces_of, records_in
from tasks.delivery.artifact_queue import ArtifactQueue
from tests.mutations import ANY, damaged_text, mutated
from tests.tasks.dispatch.fake_prefect import FakePrefect
from tests.workloads.harness.records.timings import FULL
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Record

RECORD = json.loads(FULL.to_json())
PIECES = pieces_of(FULL.to_json(), 400)
MOST = 3


@settings(max_examples=1000)
@given(st.lists(damaged_text(RECORD), min_size=1, max_size=4))
def test_an_upload_is_records_that_come_back_the_same_or_a_reason(lines):
    text = b"\n".join(lines).decode(errors="replace")
    records, odd = records_in(text, MOST)
    assert len(records) <= MOST and (odd or len(records) == text.count("\n") + 1)
    for record in records:
        assert Record.from_json(record.to_json()) == record
    if odd:
        assert odd[1] == printable(odd[1]) and len(odd[1]) < 1000


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(PIECES).flatmap(lambda piece: st.just(piece) | mutated(piece)) | ANY, max_size=12
    )
)
def test_pieces_in_any_state_are_put_together_or_held_and_deleted_in_the_end(sent):
    prefect, job = FakePrefect(), SimpleNamespace(id=uuid4())
    for data in sent:
        prefect.send(job, data)

    async def read():
        queue = ArtifactQueue(prefect)
        uploads = []
        for _ in range(len(sent) + 1):
            uploads += (new := await queue.new([job.id]))
            for upload in new:
                await queue.stored(upload)
        return uploads

    uploads = asyncio.run(read())
    handed_on = {each for upload in uploads for each in upload.artifact_ids}
    assert len(prefect.fetched) == len({artifact.id for artifact in prefect.fetched}) == len(sent)
    assert not handed_on & {artifact.id for artifact in prefect.artifacts}
    assert len(handed_on) + len(prefect.artifacts) <= len(sent)
    whole = Counter(str(data) for data in sent if piece_in(data) is None)
    assert whole <= Counter(upload.text for upload in uploads)
