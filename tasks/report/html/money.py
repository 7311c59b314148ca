"""Offers and bills as plain words that the template only has to place."""

from typing import Any

from tasks.report.charts.pareto import MOST_CASES, passes_of
from tasks.report.grid import Grid
from tasks.results.finding_types import Bill
from tasks.results.format import format_seconds, format_usd, significant
from tasks.results.speedup import scaled
from tasks.results.wording import standing
from workloads.harness.records.case import Case

MOST_PARTS = 8  # of a bill that have a colour; the smaller ones are taken together
OTHER = "other"


def offer_table(grid: Grid) -> dict[str, Any]:
    """The offers for one pass through the suite, the cheapest first; none where no case is common to all."""
    offers = [offer for offer in grid.comparison.offers if offer.case is None]
    passes = passes_of(offers)
    places = {name: place for place, name in enumerate(grid.names)}
    rows = [
        {
            "index": places.get(offer.hardware, 0),
            "hardware": offer.hardware,
            "purchase": offer.purchase,
            "seconds": format_seconds(offer.seconds),
            "usd": format_usd(scaled(offer.usd, passes)),
            "energy": f"{significant(offer.energy_j, 3)} J" if offer.energy_j is not None else "–",
            "front": not offer.dominated_by,
            "standing": standing(offer),
        }
        for offer in sorted(offers, key=lambda offer: offer.usd.value)
    ]
    rivals: dict[Case, set[str]] = {}
    for offer in grid.comparison.offers:
        if offer.case is not None:
            rivals.setdefault(offer.case, set()).add(offer.hardware)
    several = sum(1 for names in rivals.values() if len(names) > 1)
    return {
        "passes": passes,
        "rows": rows,
        "energy": any(row["energy"] != "–" for row in rows),
        "cases_left": max(several - MOST_CASES, 0),
    }


def bill_table(grid: Grid) -> dict[str, Any]:
    """Return the bill of each machine: what was paid, its steps alone, and a bar of where the time went."""
    bills = grid.comparison.bills
    parts = _parts(bills)
    longest = max((bill.billed_s for bill in bills), default=0.0)
    dearest = max((bill.usd or 0.0 for bill in bills), default=0.0)
    priced = bool(bills) and all(bill.usd is not None for bill in bills)
    places = {name: place for place, name in enumerate(grid.names)}
    notes = [note for note in (bills[0].notes if bills else ()) if all(note in b.notes for b in bills)]
    return {
        "notes": notes,
        "parts": parts,
        "by": "USD" if priced and dearest else "time",
        "rows": [
            _bill(
                bill,
                parts,
                (bill.usd or 0.0) / dearest if priced and dearest else bill.billed_s / (longest or 1.0),
            )
            | {
                "index": places.get(bill.hardware, 0),
                "notes": [note for note in bill.notes if note not in notes],
            }
            for bill in bills
        ],
    }


def _parts(bills: tuple[Bill, ...]) -> list[str]:
    """Return the parts of a bill in the order of a job; of many the largest, and the rest as one."""
    sums: dict[str, float] = {}
    for bill in bills:
        for name, seconds in bill.parts_s:
            sums[name] = sums.get(name, 0.0) + seconds
    large = sorted(sums, key=lambda name: sums[name], reverse=True)[: MOST_PARTS - 1]
    kept = list(sums) if len(sums) <= MOST_PARTS else [name for name in sums if name in large]
    return kept if len(kept) == len(sums) else [*kept, OTHER]


def _bill(bill: Bill, parts: list[str], length: float) -> dict[str, Any]:
    """A row; `share` of a segment is in percent of the longest bar."""
    seconds = dict.fromkeys(parts, 0.0)
    for name, part in bill.parts_s:
        seconds[name if name in seconds else OTHER] += part
    whole = bill.billed_s or 1.0
    compute = bill.compute_usd / bill.usd if bill.usd and bill.compute_usd is not None else None
    return {
        "hardware": bill.hardware,
        "billed": format_seconds(bill.billed_s),
        "usd": format_usd(bill.usd),
        "compute_usd": format_usd(bill.compute_usd),
        "compute": "–" if compute is None else f"{significant(100 * compute, 2)} %",
        "bar": [
            {"part": place, "share": round(100 * length * (part / whole), 2)}
            for place, part in enumerate(seconds.values())
            if part > 0
        ],
        "parts": [format_seconds(part) if part > 0 else "–" for part in seconds.values()],
        "told": ", ".join(
            f"{name} {100 * (part / whole):.0f} %" for name, part in seconds.items() if part > 0
        ),
    }
