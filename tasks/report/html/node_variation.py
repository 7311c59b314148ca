"""Boxes of one kind against each other, as plain words that tables only have to place."""

from collections.abc import Sequence
from typing import Any

from tasks.report.grid import Grid
from tasks.report.text.boxes import box
from tasks.results.finding_types import SiblingBox, Siblings
from tasks.results.format import format_count, format_ratio

STRAGGLER = "straggler"


def sibling_tables(grid: Grid) -> list[dict[str, Any]]:
    """A table for each kind of box, the fastest first, with what lies between its ends."""
    places = {name: place for place, name in enumerate(grid.names)}
    return [
        {
            "shape": found.shape,
            "cases": format_count(found.cases, "case"),
            "spread": format_ratio(found.spread),
            "left_out": ", ".join(found.left_out),
            "rows": [
                {
                    "index": places.get(sibling.hardware, 0),
                    "hardware": sibling.hardware,
                    "ratio": format_ratio(sibling.ratio),
                    "straggler": sibling.straggler,
                    "place": place_of(found, sibling),
                }
                for sibling in found.boxes
            ],
        }
        for found in grid.comparison.siblings
    ]


def place_of(found: Siblings, sibling: SiblingBox) -> str:
    """Say where a box stands among its siblings; nothing for ends that can't be told apart."""
    if sibling.straggler:
        return STRAGGLER
    apart = found.spread.low is not None and found.spread.low > 1
    ends = {found.boxes[0].hardware: "fastest", found.boxes[-1].hardware: "slowest"}
    return ends.get(sibling.hardware, "") if apart else ""


def siblings_text(siblings: Sequence[Siblings]) -> str:
    """The same in lines of text; empty where there are no such boxes."""
    rows = [
        [found.shape, sibling.hardware, format_ratio(sibling.ratio), place_of(found, sibling)]
        for found in siblings
        for sibling in found.boxes
    ]
    return box(["Kind", "Box", "Time over the median box", "Place"], rows) if rows else ""
