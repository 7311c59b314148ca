"""Tables of HTML."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from tasks.published.forms.grid import MOST_HEADER, TextGrid, grid

MOST_SPAN = 50


@dataclass(slots=True)
class _Cell:
    """A cell as it stands in the source: its text, whether it heads a column, how far it reaches."""

    heads: bool
    across: int
    down: int
    text: list[str] = field(default_factory=list)


class _Tables(HTMLParser):
    """Collects the cells of every table; a table within a table is read as its own."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[_Cell]]] = []
        self._open: list[list[list[_Cell]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open.append([])
            self.tables.append(self._open[-1])
        elif tag == "tr" and self._open:
            self._open[-1].append([])
        elif tag in ("td", "th") and self._open:
            if not self._open[-1]:
                self._open[-1].append([])  # cells of a first row that no tr opens
            spans = dict(attrs)
            self._open[-1][-1].append(
                _Cell(tag == "th", _span(spans.get("colspan")), _span(spans.get("rowspan")))
            )
        elif tag == "br":
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] and self._open[-1][-1]:
            self._open[-1][-1][-1].text.append(data)


def html_tables(text: str) -> Iterator[TextGrid]:
    """Yield the tables of a text with HTML."""
    if "<t" not in text.lower():
        return
    parser = _Tables()
    parser.feed(text)
    for rows in parser.tables:
        rows = [row for row in rows if row]
        heads = next((i for i, row in enumerate(rows) if not all(cell.heads for cell in row)), len(rows))
        lines = _spread(rows)
        if made := grid(lines, heads if 1 <= heads <= MOST_HEADER else 1):
            yield made


def _spread(rows: list[list[_Cell]]) -> list[list[str]]:
    """Repeat the text of each cell wherever it reaches."""
    taken: dict[tuple[int, int], str] = {}
    for y, row in enumerate(rows):
        x = 0
        for cell in row:
            while (y, x) in taken:
                x += 1
            for down in range(cell.down):
                for across in range(cell.across):
                    taken[y + down, x + across] = "".join(cell.text)
            x += cell.across
    width = max((x for _, x in taken), default=-1) + 1
    return [[taken.get((y, x), "") for x in range(width)] for y in range(len(rows))]


def _span(text: str | None) -> int:
    return min(int(text), MOST_SPAN) if text and text.isascii() and text.isdigit() and int(text) else 1
