"""Records of an H100 and an H200 of 2026-11-26; the first one's host is half as fast."""

import gzip
from pathlib import Path

from workloads.harness.records.record import Record

FOLDER = Path(__file__).parent


def two_cards() -> list[Record]:
    return _records("two_cards")


def power_capped() -> list[Record]:
    """Return products of an H100 at its power limit, as judged on that day: noisy and unsteady."""
    return _records("power_capped")


def _records(name: str) -> list[Record]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as lines:
        return [Record.from_json(line) for line in lines]
