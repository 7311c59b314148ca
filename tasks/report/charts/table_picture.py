"""Tables as a PNG picture."""

from collections.abc import Sequence

import vl_convert

from tasks.report.charts.draw import svg_text

Part = tuple[str, Sequence[Sequence[str]]]

LINE, PAD, MARGIN = 26, 22, 24  # pixels: height of a row, room between columns, around everything
_ADVANCE = 7.1  # width of an average character of this font at 13 pixels, on the safe side
_FONT = "font-family='Liberation Sans, Arial, sans-serif' font-size='13'"


def table_png(title: str, parts: Sequence[Part]) -> bytes:
    """Draw a title, then a heading and rows for each part; the first row is the header."""
    return bytes(vl_convert.svg_to_png(table_svg(title, parts), scale=2))


def table_svg(title: str, parts: Sequence[Part]) -> str:
    """Return the tables as SVG."""
    y, width = MARGIN + 20, max([_width(title, 19)] + [_width(heading, 14) for heading, _ in parts])
    big = _FONT.replace("13", "18")
    matches = [f"<text x='{MARGIN}' y='{y}' {big} font-weight='600'>{svg_text(title)}</text>"]
    for heading, rows in parts:
        y += 40
        matches.append(f"<text x='{MARGIN}' y='{y}' {_FONT} font-weight='600'>{svg_text(heading)}</text>")
        widths = [max(_width(row[i]) for row in rows) + PAD for i in range(len(rows[0]))]
        width = max(width, sum(widths))
        for index, row in enumerate(rows):
            y += LINE
            matches += _row(row, widths, y, head=index == 0)
            matches.append(_line(y + 8, sum(widths), "#525a64" if index == 0 else "#dfe2e6"))
    size = f"width='{width + 2 * MARGIN:.0f}' height='{y + MARGIN + 10}'"
    paper = "<rect width='100%' height='100%' fill='#ffffff'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{paper}{''.join(matches)}</svg>"


def _row(row: Sequence[str], widths: Sequence[float], y: int, head: bool) -> list[str]:
    style = "fill='#525a64' font-weight='600'" if head else "fill='#1c2127'"
    return [
        f"<text x='{MARGIN + sum(widths[:i]):.0f}' y='{y}' {_FONT} {style}>{svg_text(text)}</text>"
        for i, text in enumerate(row)
    ]


def _line(y: int, width: float, colour: str) -> str:
    return f"<path d='M{MARGIN} {y}h{width:.0f}' stroke='{colour}'/>"


def _width(text: str, size: int = 13) -> float:
    return len(text) * _ADVANCE * size / 13
