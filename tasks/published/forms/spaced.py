"""Tables whose columns are parted by separators or by white space alone."""

import csv
import io
import re
from collections.abc import Iterator, Sequence

from tasks.published.forms.grid import TextGrid, grid

SEPARATORS = (";", "\t", ",")
EVEN = 0.9  # of the lines must have as many cells as the first
_RULE = re.compile(r"[\s=_+-]+")
_DIGIT = re.compile(r"\d")


def separated_table(text: str) -> TextGrid | None:
    """Read a text as CSV with commas, semicolons or tabs; None if its lines differ in their cells."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    even = [(share, separator) for separator in SEPARATORS if (share := _evenness(lines, separator))]
    if not even or max(even)[0] < EVEN:
        return None
    import pandas as pd  # not before there is a table: it takes a second

    separator = next(s for share, s in even if share == max(even)[0])
    try:
        frame = pd.read_csv(
            io.StringIO("\n".join(lines)), sep=separator, header=None, dtype=str, keep_default_na=False,
            engine="python", skipinitialspace=True,
        )  # fmt: skip
    except (ValueError, csv.Error, UnicodeError, OverflowError):  # pandas raises its own of ValueError
        return None
    return grid([[str(cell) for cell in row] for row in frame.itertuples(index=False)])


def aligned_tables(text: str) -> Iterator[TextGrid]:
    """Yield the paragraphs whose columns are aligned by spaces."""
    for paragraph in re.split(r"\n[ \t]*\n", text.expandtabs()):
        lines = [line for line in paragraph.splitlines() if line.strip() and not _RULE.fullmatch(line)]
        if len(lines) < 2 or not _DIGIT.search(lines[-1]):
            continue
        cells = _columns(lines)
        heads = 0 if cells and sum(bool(_DIGIT.match(cell.strip())) for cell in cells[0]) > 1 else 1
        if not heads and cells:
            cells, heads = [["" for _ in cells[0]], *cells], 1
            cells[0][0] = "name"
        if cells and (made := grid(cells, heads)):
            yield made


def _columns(lines: Sequence[str]) -> list[list[str]]:
    """Cut lines where all of them are blank: at gaps of two, or of one where that makes no columns."""
    width = max(map(len, lines))
    blank = "".join(" " if all(line[i : i + 1] in ("", " ") for line in lines) else "x" for i in range(width))
    for gap in (r"  +", r" +"):
        spans = [match.span() for match in re.finditer(rf"x(?:(?!{gap}).)*", blank)]
        if len(spans) > 1:
            return [[line[start:end] for start, end in spans] for line in lines]
    return []


def _evenness(lines: Sequence[str], separator: str) -> float:
    """Return the share of lines with as many cells as the first; 0 if that has one."""
    try:
        counts = [len(row) for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=separator) if row]
    except csv.Error:
        return 0.0
    return counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0
