"""A table as lines of plain cells, however it was written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape

from workloads.harness.records.printable import printable

MOST_HEADER = 3  # lines of text above the numbers that make one header
_IMAGE, _LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)"), re.compile(r"\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"<[^<>]{0,300}>")
_NUMBER = re.compile(r"[~<>]?\s*[-+]?[\d.,]+\s*(?:[a-zµμ×]+(?:/[a-z]+)?)?\s*(?:±.*)?", re.IGNORECASE)
_MARKS = re.compile(r"\*\*|__|`|(?<!\d)\*|\*(?!\d)")


@dataclass(frozen=True, slots=True)
class TextGrid:
    """A header and the rows below it; every row has as many cells as the header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, index: int) -> list[str]:
        """Return the cells below a header."""
        return [row[index] for row in self.rows]


def plain(cell: str) -> str:
    """Return a cell as a reader sees it: one line without markup."""
    text = _LINK.sub(r"\1", _IMAGE.sub("", cell))
    text = unescape(_TAG.sub(" ", text)).replace("\\|", "|")
    return " ".join(printable(_MARKS.sub("", text)).split())


def grid(lines: Sequence[Sequence[str]], header_lines: int = 1, excess: bool = False) -> TextGrid | None:
    """Make a table of lines of cells; None where the lines are no table.

    Empty columns go. A row with more cells than the header makes none, for it isn't known which is which;
    with `excess` its last ones are left out, as Markdown has it.
    """
    cleaned = [tuple(map(plain, line)) for line in lines]
    cleaned = [line for line in cleaned if any(line)]
    if not 1 <= header_lines < len(cleaned) or header_lines > MOST_HEADER:
        return None
    width = max(map(len, cleaned[:header_lines]))
    longest = max(len(_trimmed(line)) for line in cleaned)
    if width < 2 or (longest > width and not excess):
        return None
    padded = [(*line[:width], *[""] * (width - len(line))) for line in cleaned]
    if header_lines == 1 and len(padded) > 2 and _names(padded[1]) and not _names(padded[2]):
        padded[0], header_lines = _filled(padded[0]), 2
    kept = [i for i in range(width) if any(line[i] for line in padded)]
    header = tuple(" ".join(_distinct(line[i] for line in padded[:header_lines])) for i in kept)
    rows = tuple(tuple(line[i] for i in kept) for line in padded[header_lines:])
    return TextGrid(header, rows) if len(kept) > 1 else None


def _names(line: tuple[str, ...]) -> bool:
    """Return True for a line below the header that has names and units, and no number."""
    return sum(map(bool, line)) > len(line) / 2 and not any(_NUMBER.fullmatch(cell) for cell in line)


def _filled(line: tuple[str, ...]) -> tuple[str, ...]:
    """Give an empty cell of a first header the name to its left, which spans it."""
    names = list(line)
    for index in range(1, len(names)):
        names[index] = names[index] or names[index - 1]
    return tuple(names)


def _trimmed(line: tuple[str, ...]) -> tuple[str, ...]:
    filled = max((i for i, cell in enumerate(line) if cell), default=-1)
    return line[: filled + 1]


def _distinct(cells: object) -> list[str]:
    return [cell for cell in dict.fromkeys(cells) if cell]  # type: ignore[call-overload]
