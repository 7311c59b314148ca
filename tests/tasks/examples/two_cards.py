"""Records of an H100 and an H200 of 2026-11-26: the first one's host is half as fast as the other's."""

import gzip
from pathlib import Path

from workloads.harness.records.record import Record

FILE = Path(__file__).parent / "two_cards.jsonl.gz"


def two_cards() -> list[Record]:
    """All records, in the order in which they were measured."""
    with gzip.open(FILE, "rt") as lines:
        return [Record.from_json(line) for line in lines]
