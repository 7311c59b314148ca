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

See what `gridbench check FILE` finds in well-known public tables. Each was looked at by hand. The words after the link are
check's; the cause is a guess. A *question* can be right.

Repaired errors stay here; report a wrong entry. `python -m tests.docs.published --write` writes this page from
`tests/tasks/published/corpus`.
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
        parts += [f"## {title}\n", *(line(entry, known) for entry in errors() if entry["kind"] == kind), ""]
    return "\n".join(parts)


def line(entry: dict[str, Any], known: Known) -> str:
    """Return an entry: project, table, check's first finding and the likely cause."""
    owner, name, path = entry["source"].split("/", 2)
    commit = data()["commits"][f"{owner}/{name}"]
    url = f"https://github.com/{owner}/{name}/blob/{commit}/{path}?plain=1#L{entry['line']}"
    accused, asked = findings(entry["text"], known)
    first, *others = sorted(accused) or sorted(asked)
    more = f" (and {len(others)} more)" if others else ""
    return f"- [{entry['source']}:{entry['line']}]({url}): {first}{more}. Cause: {entry['cause']}"


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: python -m tests.docs.published --write")
    PAGE.write_text(page())
