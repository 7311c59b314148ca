"""Tables that are drawn with signs: Markdown with or without outer pipes, boxes of terminals, RST."""

import re
from collections.abc import Iterator

from tasks.published.forms.grid import MOST_HEADER, TextGrid, grid

_BOXES = str.maketrans("│┃║─━═┆┄", "|||---|-") | dict.fromkeys(
    map(ord, "┌┐└┘├┤┬┴┼╒╕╘╛╞╡╤╧╪╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋┡┩╇"), "+"
)
_RULE = re.compile(r"(?=.*[-=])[\s|+:=-]+")
_SIMPLE = re.compile(r"\s*={2,}(?:\s+={2,})+\s*")
_PIPE = re.compile(r"(?<!\\)\|")


def drawn_tables(text: str) -> Iterator[TextGrid]:
    """Yield the tables of lines with | and rules between them."""
    block: list[str] = []
    for line in [*text.translate(_BOXES).splitlines(), ""]:
        bare = line.strip().lstrip(">").strip()
        if _PIPE.search(bare) or (_RULE.fullmatch(bare) and ("+" in bare or block)):
            block.append(bare)
            continue
        if found := _table(block):
            yield found
        block = []


def simple_tables(text: str) -> Iterator[TextGrid]:
    """Yield RST's simple tables, whose columns stand below runs of `=`."""
    lines = text.splitlines()
    rules = [i for i, line in enumerate(lines) if _SIMPLE.fullmatch(line)]
    while len(rules) >= 3:
        top, middle, bottom, *rules = rules
        spans = [match.span() for match in re.finditer(r"=+", lines[top])]
        ends = [start for start, _ in spans[1:]] + [None]
        cut = [
            [line[start:end] for (start, _), end in zip(spans, ends, strict=True)]
            for i, line in enumerate(lines[top:bottom], start=top)
            if i not in (top, middle) and line.strip()
        ]
        if made := grid(cut, sum(bool(line.strip()) for line in lines[top + 1 : middle])):
            yield made


def _table(block: list[str]) -> TextGrid | None:
    """Make a table of a block of lines; without outer pipes it needs a rule below its header."""
    while block and _RULE.fullmatch(block[0]):
        block = block[1:]
    rules = [i for i, line in enumerate(block) if _RULE.fullmatch(line)]
    if not rules and not all(line.startswith("|") for line in block):
        return None
    first = rules[0] if rules else 1
    lines = [_cells(line) for line in block if not _RULE.fullmatch(line)]
    return grid(lines, first if 1 <= first <= MOST_HEADER else 1, excess=True) if lines else None


def _cells(line: str) -> list[str]:
    return _PIPE.split(line.removeprefix("|").removesuffix("|"))
