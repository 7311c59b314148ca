"""Read uploads from artifacts, each once, and delete stored ones."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.delivery.artifact_encoding import TYPE, Piece, piece_in

PAGE = 20  # artifacts in an answer, at most 1 MiB each behind SSH
MOST_HELD_BYTES = 16 * 1024 * 1024  # of incomplete texts: far above the largest record
HELD_S = 300.0  # a lane job sends the pieces of a text right after each other


class Upload(NamedTuple):
    """One job's text of records, and its artifacts."""

    flow_run_id: UUID
    artifact_ids: tuple[UUID, ...]
    text: str


@dataclass(slots=True)
class Pieces:
    """An incomplete text; `since` is monotonic."""

    since: float = field(default_factory=time.monotonic)
    by_place: dict[int, tuple[UUID, Piece]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Return characters so far."""
        return sum(len(piece.text) for _, piece in self.by_place.values())

    @property
    def artifact_ids(self) -> tuple[UUID, ...]:
        """Return them in the order of the text."""
        return tuple(self.by_place[place][0] for place in sorted(self.by_place))


class ArtifactQueue:
    """A reader of uploads, which fetches each artifact once.

    The API can only count artifacts or return them whole, so the reader counts first, and knows the pieces
    that it holds and the artifacts to delete.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._seen: set[UUID] = set()
        self._over: set[UUID] = set()
        self._held: dict[tuple[UUID, str], Pieces] = {}

    async def new(self, flow_run_ids: Iterable[UUID]) -> list[Upload]:
        """Return new uploads; if many, not all."""
        self._drop_old()
        await self._remove()
        criteria = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=list(flow_run_ids)), type=ArtifactFilterType(any_=[TYPE])
        )
        left, offset = await self._count(criteria) - len(self._seen), 0
        while left > 0:
            page = await self._client.read_artifacts(
                artifact_filter=criteria,
                sort=ArtifactSort.CREATED_DESC,
                limit=min(left, PAGE),
                offset=offset,
            )
            offset += len(page)
            fresh = [artifact for artifact in reversed(page) if artifact.id not in self._seen]
            left -= len(fresh)
            self._seen |= {artifact.id for artifact in fresh}
            uploads = [upload for artifact in fresh if (upload := self._whole(artifact))]
            if uploads or not page:
                return uploads
        return []

    async def _count(self, criteria: ArtifactFilter) -> int:
        body = {"artifacts": criteria.model_dump(mode="json")}
        return int((await self._client.request("POST", "/artifacts/count", json=body)).json())

    async def stored(self, upload: Upload) -> None:
        """Remove a stored upload; if the API does not answer, before the next poll."""
        self._over |= {*upload.artifact_ids}
        with suppress(*LOST_TOUCH):
            await self._remove()

    async def _remove(self) -> None:
        for artifact_id in list(self._over):
            with suppress(ObjectNotFound):
                await self._client.delete_artifact(artifact_id)
            self._over.discard(artifact_id)
            self._seen.discard(artifact_id)

    def _whole(self, artifact: Artifact) -> Upload | None:
        sender = artifact.flow_run_id
        if sender is None:
            return None
        piece = piece_in(artifact.data)
        if piece is None:
            return Upload(sender, (artifact.id,), str(artifact.data))
        key = sender, piece.parcel
        pieces = self._held.setdefault(key, Pieces())
        if piece.place in pieces.by_place:  # a duplicate
            self._over.add(artifact.id)
            return None
        pieces.by_place[piece.place] = artifact.id, piece
        if len(pieces.by_place) < piece.pieces:
            self._drop_excess(sender)
            return None
        del self._held[key]
        text = "".join(pieces.by_place[place][1].text for place in sorted(pieces.by_place))
        return Upload(sender, pieces.artifact_ids, text)

    def _drop_excess(self, sender: UUID) -> None:
        mine = [key for key in self._held if key[0] == sender]
        if sum(self._held[key].size_bytes for key in mine) > MOST_HELD_BYTES:
            self._drop(mine)

    def _drop_old(self) -> None:
        now = time.monotonic()
        self._drop([key for key, pieces in self._held.items() if now - pieces.since > HELD_S])

    def _drop(self, keys: Iterable[tuple[UUID, str]]) -> None:
        for key in keys:
            self._over |= {*self._held.pop(key).artifact_ids}
