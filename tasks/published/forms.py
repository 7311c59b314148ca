"""Tables in HTML, Markdown, boxes, RST, CSV or aligned text."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import islice
from typing import NamedTuple

from tasks.errors import GridbenchError
from workloads.harness.records.printable import printable

MOST_ROWS, MOST_COLUMNS = 5000, 200
MOST_PLACES = 5_000_000  # characters of a paragraph with all lines as long as the longest
MOST_CELL = 1000  # characters that are looked at
LEAST_PAIRS = 4  # lines of `name: value` that make a report
MOST_HEADER = 3  # lines of text above the numbers that make one header
MOST_SPAN = 50
SEPARATORS = (";", "\t", ",")
EVEN = 0.9  # share of the lines with as many cells as the first
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_DIGIT = re.compile(r"\d")

_IMAGE, _LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)"), re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SIMPLE = re.compile(r" *[a-zA-Z0-9.,%+/-]{0,40} *")
_HTML = re.compile(r"<(/?)(table|tr|td|th)\b([^>]{0,1000})>", re.IGNORECASE)
_SPAN = re.compile(r"\b(col|row)span\s*=\s*[\"']?(\d{1,9})\b")
_INLINE = re.compile(r"<(?!br\b|p\b|li\b|div\b)[^<>]{0,300}>", re.IGNORECASE)  # `1.5<b>x</b>` is one word
_TAG = re.compile(r"<[^<>]{0,300}>")
_NUMBER = re.compile(r"[~<>]?\s*[-+]?[\d.,]+\s*(?:[a-zµμ×]+(?:/[a-z]+)?)?\s*(?:±.*)?", re.IGNORECASE)
_MARKS = re.compile(r"\*\*|__|`|(?<!\d)\*|\*(?!\d)")

_BOXES = str.maketrans("│┃║─━═┆┄", "|||---|-") | dict.fromkeys(
    map(ord, "┌┐└┘├┤┬┴┼╒╕╘╛╞╡╤╧╪╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋┡┩╇"), "+"
)
_RULE = re.compile(r"(?=.*[-=])[\s|+:=-]+")
_RST_RULE = re.compile(r"\s*={2,}(?:\s+={2,})+\s*")
_TEXT_RULE = re.compile(r"[\s=_+-]+")
_OF_SECTION = re.compile(r"#|\*\*")
_PIPE = re.compile(r"(?<!\\)\|")

_TITLE = re.compile(r"\s*[=-]{3,}\s[A-Za-z].*\s[=-]{3,}\s*")  # pytest-benchmark's
_NAMED = re.compile(r"\s*[A-Za-z][^:|]{1,60}: +\S")
_HEADING = re.compile(r"\s*[=-]{3,}.*[=-]{3,}\s*")  # within a report of serving
_BAR, _CORNERS = "│", set("┌├└╞╰┏┡┗╘")
_NOTE = re.compile(r"[¹²³⁴]")
_PREFIX = re.compile(r"(\d)([nµm]) (?=[± ])")
_ERROR = re.compile(r"±( +)(\S+)")
_GAP = re.compile(r"\s{2,}")
_QUANTITY = re.compile(r"[a-z]+(?:_[a-z]+)*_s")
_PAIR = re.compile(r"\s*([A-Za-z][^:=|]{1,60}?)(?::| =)\s+([-+]?\d[\d.,]*(?:\s?[\w/%]{1,12})?)\s*")
_TIMED = re.compile(  # hyperfine's lines
    r"Benchmark #?\d+: (.{1,200})\n\s*Time \(mean[^)]*\):\s+([\d.]+ \w+) .*\n"
    r"\s*Range \(min[^)]*\):\s+([\d.]+ \w+) …\s+([\d.]+ \w+)"
)


@dataclass(frozen=True, slots=True)
class TextGrid:
    """A header and rows; `above` has title and line above."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    above: str = ""

    def column(self, index: int) -> list[str]:
        return [row[index] for row in self.rows]


def find_grids(text: str) -> list[TextGrid]:
    """Find tables; CSV and aligned text only without any other.

    Raises:
        GridbenchError: a table has too many rows or columns.
    """
    reports = [*_reports(text), *_timed(text)]
    text = _unmarked(text)
    grids = [*_html_tables(text), *_drawn_tables(text), *_rst_tables(text), *reports]
    if not grids and (separated := _separated_table(text)):
        grids = [separated]
    return grids or list(_aligned_tables(text))


def _plain(cell: str) -> str:
    if _SIMPLE.fullmatch(cell):
        return cell.strip()
    text = _LINK.sub(r"\1", _IMAGE.sub("", cell[:MOST_CELL]))
    text = unescape(_TAG.sub(" ", text)).replace("\\|", "|")
    return " ".join(printable(_MARKS.sub("", text)).replace("\u200b", "").split())


def _grid(lines: Sequence[Sequence[str]], header_lines: int = 1, excess: bool = False) -> TextGrid | None:
    """Return a table without empty columns; None if lines are not one.

    Excess cells in a row make it none. `excess` drops the last ones, as Markdown does.
    """
    columns = max(map(len, lines), default=0)
    if len(lines) > MOST_ROWS + MOST_HEADER or columns > MOST_COLUMNS:
        raise GridbenchError(
            f"a table has {len(lines)} lines of {columns} columns, but a published table can have at most "
            f"{MOST_ROWS} of {MOST_COLUMNS}"
        )
    cleaned = [tuple(map(_plain, line)) for line in lines]
    cleaned = [line for line in cleaned if any(line)]
    if not 1 <= header_lines < len(cleaned) or header_lines > MOST_HEADER:
        return None
    width = max(map(len, cleaned[:header_lines]))
    longest = max(i for line in cleaned for i, cell in enumerate(line, start=1) if cell)
    if width < 2 or (longest > width and not excess):
        return None
    padded = [(*line[:width], *[""] * (width - len(line))) for line in cleaned]
    if header_lines == 1 and len(padded) > 2 and _has_names(padded[1]) and not _has_names(padded[2]):
        padded[0], header_lines = _filled(padded[0]), 2
    kept = [i for i in range(width) if any(line[i] for line in padded)]
    header = tuple(
        " ".join(filter(None, dict.fromkeys(line[i] for line in padded[:header_lines]))) for i in kept
    )
    rows = tuple(tuple(line[i] for i in kept) for line in padded[header_lines:])
    return TextGrid(header, rows) if len(kept) > 1 else None


def _has_names(line: tuple[str, ...]) -> bool:
    return sum(map(bool, line)) > len(line) / 2 and not any(_NUMBER.fullmatch(cell) for cell in line)


def _filled(line: tuple[str, ...]) -> tuple[str, ...]:
    names = list(line)
    for index in range(1, len(names)):
        names[index] = names[index] or names[index - 1]
    return tuple(names)


def _unmarked(text: str) -> str:
    """Blank the marks of headers, so that columns of spaces remain.

    A header is marked by bars that end above the lines, by #, or by a rule with a title.
    """
    return "\n\n".join("\n".join(_without_marks(part.splitlines())) for part in _PARAGRAPHS.split(text))


def _without_marks(lines: list[str]) -> list[str]:
    lines = [line for line in lines if not _TITLE.fullmatch(line)]
    barred = [number for number, line in enumerate(lines) if line.lstrip().startswith(_BAR)]
    if len(barred) in (1, 2) and barred[-1] + 1 < len(lines) and not _CORNERS & set("".join(lines)):
        return _below_bars(lines[barred[-1] :])
    heads = [line for line in lines if line.startswith("#")]
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    parts = len(_GAP.split(rows[0].strip())) if rows else 0
    names = [line.replace("#", " ", 1) for line in heads if 2 < len(_GAP.split(line.strip("# "))) <= parts]
    return [*names[-2:], *rows] if len(names) > 1 and "".join(lines).startswith("#") else lines


def _below_bars(lines: list[str]) -> list[str]:
    """Return a header of units and its lines; `1.04m` below benchstat's `sec/op` is milliseconds."""
    head = lines[0].replace(_BAR, " ")
    rows = [_NOTE.sub(" ", line) for line in lines[1:] if not _NOTE.match(line.lstrip())]
    rows = [_ERROR.sub(r"±\2\1", row) for row in rows]
    return [head, *(_PREFIX.sub(r"\1\2s", row) if "sec/op" in head else row for row in rows)]


def _drawn_tables(text: str) -> Iterator[TextGrid]:
    block: list[str] = []
    title = above = ""
    for line in [*text.translate(_BOXES).splitlines(), ""]:
        bare = line.strip().lstrip(">").strip()
        if _PIPE.search(bare) or (_RULE.fullmatch(bare) and ("+" in bare or block)):
            block.append(bare)
            continue
        if table := _drawn_table(block):
            yield replace(table, above=f"{title}\n{above}")
            above = ""
        title = bare if _OF_SECTION.match(bare) else title
        above, block = bare or above, []


def _drawn_table(block: list[str]) -> TextGrid | None:
    """Return a table of lines; without outer pipes it needs a rule below its header."""
    while block and _RULE.fullmatch(block[0]):
        block = block[1:]
    rules = [i for i, line in enumerate(block) if _RULE.fullmatch(line)]
    if not rules and not all(line.startswith("|") for line in block):
        return None
    first = rules[0] if rules else 1
    lines = [_PIPE.split(s.removeprefix("|").removesuffix("|")) for s in block if not _RULE.fullmatch(s)]
    return _grid(lines, first if 1 <= first <= MOST_HEADER else 1, excess=True) if lines else None


def _rst_tables(text: str) -> Iterator[TextGrid]:
    lines = text.splitlines()
    rules = [i for i, line in enumerate(lines) if _RST_RULE.fullmatch(line)]
    while len(rules) >= 3:
        top, middle, bottom, *rules = rules
        spans = [match.span() for match in re.finditer(r"=+", lines[top])]
        ends = [start for start, _ in spans[1:]] + [None]
        cut = [
            [line[start:end] for (start, _), end in zip(spans, ends, strict=True)]
            for i, line in enumerate(lines[top:bottom], start=top)
            if i not in (top, middle) and line.strip()
        ]
        if made := _grid(cut, sum(bool(line.strip()) for line in lines[top + 1 : middle])):
            yield made


def _separated_table(text: str) -> TextGrid | None:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    even = [(share, separator) for separator in SEPARATORS if (share := _evenness(lines, separator))]
    if not even or max(even)[0] < EVEN:
        return None
    separator = next(s for share, s in even if share == max(even)[0])
    try:
        return _grid(list(islice(_split(lines, separator), MOST_ROWS + 2 * MOST_HEADER)))
    except csv.Error:  # a cell is too long
        return None


def _evenness(lines: Sequence[str], separator: str) -> float:
    try:
        counts = [len(row) for row in islice(_split(lines, separator), MOST_ROWS)]
    except csv.Error:
        return 0.0
    return counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0


def _split(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    rows = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=True)
    return (row for row in rows if row)


def _reports(text: str) -> Iterator[TextGrid]:
    """Yield `name: value` reports, such as serving benchmarks; equal names make rows of one."""
    runs: list[list[tuple[str, str]]] = [[]]
    title = ""  # of llmperf's indented lines, such as `ttft_s` above `p50 = 0.31`
    for line in text.splitlines():
        title = line.strip() if _QUANTITY.fullmatch(line) else title if line.startswith(" ") else ""
        if match := _PAIR.fullmatch(line):
            runs[-1].append((f"{match[1].strip()} {title}".strip(), match[2]))
        elif (
            line.strip()
            and not title
            and not _NAMED.match(line)
            and (not _HEADING.fullmatch(line[:MOST_CELL]) or "Result" in line)
        ):
            runs.append([])
    alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for pairs in runs:
        names = tuple(name for name, _ in pairs)
        if len(names) >= LEAST_PAIRS and sum(name.endswith((")", "_s")) for name in names) > 1:
            alike.setdefault(names, []).append(tuple(value for _, value in pairs))
    for names, rows in alike.items():
        numbered = [[f"report {number}", *row] for number, row in enumerate(rows, start=1)]
        if made := _grid([["", *names], *numbered]):
            yield made


def _timed(text: str) -> Iterator[TextGrid]:
    rows = [list(match.groups()) for match in islice(_TIMED.finditer(text), MOST_ROWS)]
    if rows and (made := _grid([["Benchmark", "Time mean", "Time min", "Time max"], *rows])):
        yield made


def _aligned_tables(text: str) -> Iterator[TextGrid]:
    for paragraph in _PARAGRAPHS.split(text.expandtabs()):
        lines = [line for line in paragraph.splitlines() if line.strip() and not _TEXT_RULE.fullmatch(line)]
        if len(lines) < 2 or not _DIGIT.search(lines[-1]):
            continue
        parts = [len(_GAP.split(line.strip())) for line in lines[:2]]
        above = lines.pop(0) if parts[0] == 1 and parts[1] > 2 and len(lines) > 2 else ""
        cells = _by_words(lines) or _columns(lines)
        if cells and sum(bool(_DIGIT.match(cell.strip())) for cell in cells[0]) > 1:  # there is no header
            cells = [["name", *("" for _ in cells[0][1:])], *cells]
        numbered = sum(any(_DIGIT.match(cell.strip("-+~<$ ")) for cell in row[1:]) for row in cells[1:])
        if 2 * numbered >= len(cells) - 1 > 0 and (made := _grid(cells)):  # else it is prose
            yield replace(made, above=above.strip())


def _by_words(lines: Sequence[str]) -> list[list[str]]:
    """Cut at words, if all rows have as many as the header, or one more for their number.

    Bracketed words below the header are units of the nearest word.
    """
    words = [list(re.finditer(r"\S+", line)) for line in lines]
    width = len(words[-1])
    start = next((n for n, each in enumerate(words) if len(each) == width and _DIGIT.match(each[-1][0])), 0)
    heads, rows = words[:start], words[start:]
    names = next((head for head in heads if len(head) in (width, width - 1)), None)
    even = width > 2 and all(len(row) == width for row in rows)
    if not names or not even or len(heads) > MOST_HEADER or any(name[0].startswith("(") for name in names):
        return []
    header = [name[0] for name in names]
    for unit in (word for head in heads if head is not names for word in head if word[0].startswith("(")):
        nearest = min(range(len(names)), key=lambda n: abs(names[n].end() - unit.end()))
        header[nearest] += f" {unit[0]}"
    return [["" for _ in range(width - len(header))] + header, *([cell[0] for cell in row] for row in rows)]


def _columns(lines: Sequence[str]) -> list[list[str]]:
    """Cut at common gaps: of two spaces, or of one if that makes no columns."""
    width = max(map(len, lines))
    if width * len(lines) > MOST_PLACES:
        return []
    blank = "".join(" " if all(line[i : i + 1] in ("", " ") for line in lines) else "x" for i in range(width))
    for gap in (r"  +", r" +"):
        spans = [match.span() for match in re.finditer(rf"x(?:(?!{gap}).)*", blank)]
        if len(spans) > 1:
            return [[line[start:end] for start, end in spans] for line in lines]
    return []


class _Cell(NamedTuple):
    heads: bool
    across: int
    down: int
    text: str


def _html_tables(text: str) -> Iterator[TextGrid]:
    tables: list[list[list[_Cell]]] = []
    opened: list[list[list[_Cell]]] = []
    parts = _HTML.split(text)
    for closed, tag, marks, inside in zip(*(parts[n::4] for n in range(1, 5)), strict=True):
        kind = tag.lower()
        if kind == "table" and not closed:
            opened.append([])
            tables.append(opened[-1])
        elif kind == "table":
            opened = opened[:-1]
        elif opened and not closed:
            if kind == "tr" or not opened[-1]:  # cells of a first row can stand in no tr
                opened[-1].append([])
            if kind != "tr":
                spans = {
                    name: min(int(number), MOST_SPAN) or 1 for name, number in _SPAN.findall(marks.lower())
                }
                bare = _INLINE.sub("", inside)
                opened[-1][-1].append(_Cell(kind == "th", spans.get("col", 1), spans.get("row", 1), bare))
    for table in tables:
        rows = [row for row in table if row]
        heads = next((i for i, row in enumerate(rows) if not all(cell.heads for cell in row)), len(rows))
        if made := _grid(_spread(rows), heads if 1 <= heads <= MOST_HEADER else 1):
            yield made


def _spread(rows: list[list[_Cell]]) -> list[list[str]]:
    taken: dict[tuple[int, int], str] = {}
    if sum(cell.across * cell.down for row in rows for cell in row) > MOST_ROWS * MOST_COLUMNS:
        return []
    for y, row in enumerate(rows):
        x = 0
        for cell in row:
            while (y, x) in taken:
                x += 1
            for down in range(cell.down):
                for across in range(cell.across):
                    taken[y + down, x + across] = cell.text
            x += cell.across
    width = max((x for _, x in taken), default=-1) + 1
    return [[taken.get((y, x), "") for x in range(width)] for y in range(len(rows))]
