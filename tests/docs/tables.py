"""Tables that a benchmark writes into a page, between the marks `<!-- NAME -->` and `<!-- /NAME -->`."""

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def written(page: str, name: str, lines: Iterable[str]) -> Path:
    """Write lines into docs/`page` between the marks; return its path. Raise ValueError without them."""
    path = ROOT / "docs" / page
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    text = path.read_text()
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    path.write_text(before + begin + "".join(f"{line}\n" for line in lines) + end + after)
    return path


def lines(page: str, name: str) -> list[str]:
    """Return the lines between the marks of docs/`page`."""
    text = (ROOT / "docs" / page).read_text()
    return text.split(f"<!-- {name} -->\n", 1)[1].split(f"<!-- /{name} -->", 1)[0].splitlines()


def show(heading: str, lines: Iterable[str], page: str, name: str, write: bool) -> None:
    """Print a table's lines as they come; `write` puts them into docs/`page` below a heading."""
    shown = []
    for line in lines:
        print(line, flush=True)
        shown.append(line)
    if write:
        print(f"written to {written(page, name, [heading, '', *shown])}")
