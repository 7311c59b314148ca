"""Text in columns whose header is marked: by bars that end above the lines, by #, by a rule with a title."""

import re

_PARTED = re.compile(r"\n[ \t]*\n")
_TITLE = re.compile(r"\s*[=-]{3,}\s[A-Za-z].*\s[=-]{3,}\s*")  # pytest-benchmark's
_BAR, _CORNERS = "│", set("┌├└╞╰┏┡┗╘")
_NOTE = re.compile(r"[¹²³⁴]")
_PREFIX = re.compile(r"(\d)([nµm]) (?=[± ])")
_ERROR = re.compile(r"±( +)(\S+)")
_GAP = re.compile(r"\s{2,}")


def unmarked(text: str) -> str:
    """Return a text with the marks of headers blanked, so that columns of spaces remain."""
    return "\n\n".join("\n".join(_plain(part.splitlines())) for part in _PARTED.split(text))


def _plain(lines: list[str]) -> list[str]:
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
    """Return a header of units and its lines; `1.04m` below benchstat's `sec/op` are milliseconds."""
    head = lines[0].replace(_BAR, " ")
    rows = [_NOTE.sub(" ", line) for line in lines[1:] if not _NOTE.match(line.lstrip())]
    rows = [_ERROR.sub(r"±\2\1", row) for row in rows]
    return [head, *(_PREFIX.sub(r"\1\2s", row) if "sec/op" in head else row for row in rows)]
