"""Read uploaded records from artifacts, each once, and delete an artifact once its records are stored."""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.delivery.artifact_encoding import TYPE, Piece, piece_in

PAGE = 100
MOST_HELD = 4 * PAGE  # artifacts that wait for the other pieces of their text: a hostile lane sends no more


class Upload(NamedTuple):
    """A text of records from one lane job, and the artifacts that brought it."""

    flow_run_id: UUID
    artifact_ids: tuple[UUID, ...]
    text: str


class ArtifactQueue:
    """A reader of uploads; a look that finds none costs one small query."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._seen: set[UUID] = set()
        self._stored: set[UUID] = set()
        self._pieces: dict[tuple[UUID, str], dict[int, tuple[UUID, Piece]]] = {}

    async def new(self, flow_run_ids: Iterable[UUID]) -> list[Upload]:
        """Return uploads that have come since the last call; not all of them where there are many."""
        await self._remove()
        criteria = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=list(flow_run_ids)), type=ArtifactFilterType(any_=[TYPE])
        )
        offset = 0
        while True:
            page = await self._client.read_artifacts(
                artifact_filter=criteria, sort=ArtifactSort.CREATED_DESC, limit=PAGE, offset=offset
            )
            offset += len(page)
            uploads = self._uploads(page)
            if uploads or len(page) < PAGE:
                return uploads

    def _uploads(self, page: list[Artifact]) -> list[Upload]:
        fresh = [artifact for artifact in reversed(page) if artifact.id not in self._seen]
        self._seen |= {artifact.id for artifact in fresh}
        return [upload for artifact in fresh if (upload := self._whole(artifact))]

    async def stored(self, upload: Upload) -> None:
        """Remove an upload whose records are stored; where the API does not answer, before the next look."""
        self._stored |= {*upload.artifact_ids}
        with suppress(*LOST_TOUCH):
            await self._remove()

    async def _remove(self) -> None:
        for artifact_id in list(self._stored):
            with suppress(ObjectNotFound):
                await self._client.delete_artifact(artifact_id)
            self._stored.discard(artifact_id)
            self._seen.discard(artifact_id)

    def _whole(self, artifact: Artifact) -> Upload | None:
        """Return the upload that an artifact makes complete; None where pieces are missing."""
        sender = artifact.flow_run_id
        if sender is None:
            return None
        piece = piece_in(artifact.data)
        if piece is None:
            return Upload(sender, (artifact.id,), str(artifact.data))
        pieces = self._pieces.setdefault((sender, piece.parcel), {})
        pieces[piece.place] = artifact.id, piece
        if len(pieces) < piece.pieces:
            if sum(map(len, self._pieces.values())) > MOST_HELD:
                self._pieces.clear()
            return None
        del self._pieces[sender, piece.parcel]
        in_order = [pieces[place] for place in sorted(pieces)]
        text = "".join(piece.text for _, piece in in_order)
        return Upload(sender, tuple(artifact_id for artifact_id, _ in in_order), text)
