"""Records as artifacts, a line of JSON each."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import uuid4

from workloads.harness.records.errors import RecordError
from workloads.harness.records.record import Record

TYPE = "bench-record"  # of the artifacts; without a key, no page of the UI lists them
MOST_PIECES = 256


class Piece(NamedTuple):
    """A part of a long text.

    Attributes:
        parcel: id of the text.
        place: from 0, out of `pieces`.
    """

    parcel: str
    place: int
    pieces: int
    text: str


def text_of(records: Iterable[Record]) -> str:
    return "\n".join(record.to_json() for record in records)


def pieces_of(text: str, most_bytes: int) -> list[dict[str, Any]]:
    """Cut a text into pieces of `most_bytes` characters."""
    text_id, parts = uuid4().hex, [text[at : at + most_bytes] for at in range(0, len(text), most_bytes)]
    return [Piece(text_id, place, len(parts), part)._asdict() for place, part in enumerate(parts)]


def piece_in(data: Any) -> Piece | None:
    """Return None if it is not a piece."""
    if not isinstance(data, dict) or data.keys() != {*Piece._fields}:
        return None
    piece = Piece(**data)
    texts = isinstance(piece.parcel, str) and isinstance(piece.text, str)
    numbers = isinstance(piece.place, int) and isinstance(piece.pieces, int)
    return piece if texts and numbers and 0 <= piece.place < piece.pieces <= MOST_PIECES else None


def records_in(text: str, most: int) -> tuple[list[Record], tuple[str, str] | None]:
    """Return records, and the first bad line with the reason.

    Reading stops there: a text can have millions of bad lines.
    """
    records: list[Record] = []
    for number, line in enumerate(text.split("\n", most)):
        if number == most:
            return records, (line, f"one upload of this job has at most {most} records")
        try:
            records.append(Record.from_json(line))
        except RecordError as error:
            return records, (line, str(error))
    return records, None
