"""Write docs/published-errors.md, the errors of public tables in check's words: `python -m tests.docs.published
--write`.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gridbench.check import known_machines
from tasks.published.review import Known
from tests.tasks.published.variants import findings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "published-errors.md"
CORPUS = ROOT / "tests" / "tasks" / "published" / "corpus"
KINDS = {
    "speedup": "A speedup that its row does not give",
    "efficiency": "A scaling or an efficiency that the rows do not give",
    "scaling": "More speed than the devices can give",
    "percentiles": "Percentiles out of order",
    "unit": "A unit that is a thousand times off",
    "total": "A total that its parts do not give",
    "work": "A time and a rate of different work",
    "doubt": "Questions",
}
HEAD = """# Errors in published tables

`gridbench check` finds these errors in well-known public tables. Everybody's tables have errors: the projects below publish
theirs in the open, with the numbers that show them. Each table was looked at by hand. The words after *check* are its own;
the cause is our guess. A *question* is a doubt: the number can be right.

This page is generated from `tests/tasks/published/corpus`: `python -m tests.docs.published --write`. An error that a project has
mended since stays here with its commit; tell us if an entry is wrong.
"""


@cache
def data() -> dict[str, Any]:
    """Return errors.yaml: commits by project, and tables."""
    loaded: dict[str, Any] = yaml.safe_load((CORPUS / "errors.yaml").read_text())
    return loaded


def errors() -> Iterator[dict[str, Any]]:
    for name in ("development", "held_out"):
        entries = yaml.load((CORPUS / f"{name}.yaml").read_text(), yaml.CSafeLoader)
        yield from (entry for entry in entries if "cause" in entry)
    yield from data()["tables"]


def page() -> str:
    known, parts = known_machines(), [HEAD]
    for kind, title in KINDS.items():
        parts += [f"## {title}\n", *(section(entry, known) for entry in errors() if entry["kind"] == kind)]
    return "\n".join(parts)


def section(entry: dict[str, Any], known: Known) -> str:
    """Return an entry: project, table, check's first finding and the likely cause."""
    owner, name, path = entry["source"].split("/", 2)
    commit = data()["commits"][f"{owner}/{name}"]
    url = f"https://github.com/{owner}/{name}/blob/{commit}/{path}?plain=1#L{entry['line']}"
    accused, asked = findings(entry["text"], known)
    first, *others = sorted(accused) or sorted(asked)
    more = f" (and {len(others)} more)" if others else ""
    return (
        f"**{owner}/{name}**, [{path}, line {entry['line']}]({url}), commit {commit[:10]}\n\n"
        f"- {'check' if accused else 'question'}: {first}{more}\n"
        f"- likely cause: {entry['cause']}\n"
    )


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: python -m tests.docs.published --write")
    PAGE.write_text(page())
