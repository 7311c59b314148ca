"""Wrong variants of right tables, one fault each; `python -m tests.tasks.published.variants` counts the caught
ones.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gridbench.check import known_machines
from tasks.errors import GridbenchError
from tasks.published.read import read_tables
from tasks.published.review import Known, review

KINDS = Path(__file__).parent / "corpus" / "kinds.yaml"


class Variant(NamedTuple):
    """A table with one fault, or the right one.

    Attributes:
        doubt: it deserves a question, not an accusation.
    """

    kind: str
    fault: str
    right: str
    text: str
    doubt: bool


@cache
def right_tables() -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = yaml.safe_load(KINDS.read_text())
    return tables


def variants() -> Iterator[Variant]:
    for table in right_tables():
        for fault in table["faults"]:
            text, named = table["text"], []
            for number, change in zip(fault[::2], fault[1::2], strict=True):
                text = _changed(text, number, change)
                named.append(
                    f"{number} {'' if str(change)[0] == '=' else '↔' if isinstance(change, str) else '×'} {change}"
                )
            yield Variant(table["kind"], ", ".join(named), table["text"], text, table.get("doubt", False))


def findings(text: str, known: Known) -> tuple[set[str], set[str]]:
    try:
        flaws = [flaw for table in read_tables(text, "f") for flaw in review(table, None, known).findings]
    except GridbenchError:
        return set(), set()
    return {f.text for f in flaws if not f.doubt}, {f.text for f in flaws if f.doubt}


def verdict(variant: Variant, known: Known) -> str:
    """Return `accused`, `asked` or `missed`, without the right table's own findings."""
    before, after = findings(variant.right, known), findings(variant.text, known)
    if after[0] - before[0]:
        return "accused"
    return "asked" if after[1] - before[1] else "missed"


def caught(variant: Variant, found: str) -> bool:
    """Return True if a fault was accused, or asked about if that suffices."""
    return found == "accused" or (variant.doubt and found == "asked")


def _changed(text: str, number: str, change: float | str) -> str:
    """Scale a unique number in a text, exchange it, or put a copy of another in its place."""
    if isinstance(change, str) and change.startswith("="):
        return _once(text, number, change[1:])
    if isinstance(change, str):
        held = _once(text, number, "\0")
        return _once(held, change, number).replace("\0", change)
    scaled = Decimal(number) * Decimal(str(change))
    scaled = scaled.quantize(Decimal(number) if scaled >= 1 else Decimal(number).scaleb(-2))
    return _once(text, number, str(scaled).ljust(len(number)))


def _once(text: str, old: str, new: str) -> str:
    replaced, count = re.subn(rf"(?<![\w.]){re.escape(old)}(?![\d.])", lambda _: new, text)
    if count != 1:
        raise ValueError(f"{old} stands {count} times in {text}")
    return replaced


def main() -> None:
    """Print missed faults; by kind the right tables, the accused ones, the faults and the caught ones."""
    known = known_machines()
    counts: dict[str, list[int]] = {}
    for table in right_tables():
        of_kind = counts.setdefault(table["kind"], [0, 0, 0, 0])
        of_kind[0] += 1
        of_kind[1] += bool(findings(table["text"], known)[0])
    for variant in variants():
        says = verdict(variant, known)
        counts[variant.kind][2] += 1
        counts[variant.kind][3] += caught(variant, says)
        if not caught(variant, says):
            print(f"{says:8} {variant.kind:18} {variant.fault}")
    print(f"\n{'kind':18} {'right':>8} {'accused':>8} {'faults':>8} {'caught':>8}")
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    for kind, numbers in counts.items():
        print(f"{kind:18}", *(f"{number:8}" for number in numbers))


if __name__ == "__main__":
    main()
