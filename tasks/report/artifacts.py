"""What the Prefect UI shows of a comparison: a table a stage, every number as text with its interval."""

from collections.abc import Callable, Iterable, Sequence

from tasks.findings.pareto import LISTED, SPOT
from tasks.report.grid import grid_of
from tasks.report.html.node_variation import place_of
from tasks.report.scaling_rows import level_row
from tasks.results.cost import cost_words
from tasks.results.finding_types import Offer
from tasks.results.format import format_percent, format_ratio, format_seconds, format_usd
from tasks.results.model import Comparison, Pairing, Summary
from tasks.results.values import Ratio
from tasks.results.wording import few, price_text, standing, verdict_text

MOST_ROWS = 500
"""Rows of an artifact: the page draws all of them at once. Every row is in the run's comparison.csv."""

Row = dict[str, str]


def stage_tables(comparison: Comparison) -> dict[str, tuple[str, list[Row]]]:
    """Artifact key to description and rows; a stage with nothing to show is left out."""
    stages: dict[str, tuple[str, Callable[[Comparison], Iterable[Row]]]] = {
        "bench-speedups": (f"Time, and speedup over {comparison.baseline}: above 1× is faster", speedup_rows),
        "bench-cost": ("Time against money; what nothing else beats in both is on the front", cost_rows),
        "bench-siblings": ("Boxes of one kind against each other", sibling_rows),
        "bench-scaling": ("How cases scale with the number of processes", scaling_rows),
        "bench-refused": ("Numbers that enter no ratio, and why", refused_rows),
    }
    found = {key: (text, list(rows(comparison))) for key, (text, rows) in stages.items()}
    return {key: (_described(text, rows), rows[:MOST_ROWS]) for key, (text, rows) in found.items() if rows}


def speedup_rows(comparison: Comparison) -> Iterable[Row]:
    """A row a cell that has a number."""
    grid = grid_of((), comparison)
    for summary in comparison.summaries:
        if summary.compute_s:
            pairing = grid.pairings.get((summary.cell.hardware, summary.cell.case))
            yield {
                "cell": summary.cell.id,
                "time": format_seconds(summary.compute_s),
                "repeats": f"{summary.ok_repeats} of {summary.repeats}",
                "speedup": _ratio(pairing and pairing.compute),
                "end to end": _ratio(pairing and pairing.end_to_end),
                "verdict": _verdict(comparison, summary, pairing),
                "note": _note(pairing),
            }


def cost_rows(comparison: Comparison) -> Iterable[Row]:
    """A row a machine at each of its prices: one pass through the suite first, then each case."""
    pairings = grid_of((), comparison).pairings
    prices = {
        (machine.name, purchase): price
        for machine in comparison.machines
        for purchase, price in ((LISTED, machine.usd_per_hour), (SPOT, machine.spot_usd_per_hour))
    }
    for offer in comparison.offers:
        pairing = pairings.get((offer.hardware, offer.case)) if offer.case else None
        ratio = pairing.cost if pairing and offer.purchase == LISTED else None
        yield {
            "what": offer.case.id if offer.case else "one pass through the suite",
            "machine": offer.hardware,
            "price": price_text(prices.get((offer.hardware, offer.purchase))) + _spot(offer),
            "time": format_seconds(offer.seconds),
            "money": format_usd(offer.usd),
            "cost efficiency": _ratio(ratio),
            "verdict": cost_words(ratio) if ratio else "",
            "front": standing(offer),
        }


def sibling_rows(comparison: Comparison) -> Iterable[Row]:
    """A row a box of several of one kind, the fastest first."""
    for found in comparison.siblings:
        for sibling in found.boxes:
            yield {
                "kind": found.shape,
                "box": sibling.hardware,
                "time over the median box": format_ratio(sibling.ratio),
                "place": place_of(found, sibling),
                "slowest over fastest": format_ratio(found.spread),
                "cases": str(found.cases),
            }


def scaling_rows(comparison: Comparison) -> Iterable[Row]:
    """A row a number of processes, then the machines that have several devices of one model."""
    for family in comparison.families:
        for level in family.levels:
            shown = level_row(level)
            yield {
                "what": f"{family.hardware}: {family.title}",
                "kind": family.scaling,
                "devices": str(shown["processes"]),
                "time": str(shown["time"]),
                "speedup": str(shown["speedup"]),
                "efficiency": str(shown["efficiency"]),
                "band": str(shown["band"]),
                "note": "; ".join(shown["why"]),
            }
    for pairing in comparison.pairings:
        if pairing.efficiency and pairing.compute:
            yield {
                "what": f"{pairing.hardware}: {pairing.case.id}",
                "kind": pairing.scaling,
                "devices": f"against {pairing.baseline}",
                "time": "",
                "speedup": _ratio(pairing.compute),
                "efficiency": format_percent(pairing.efficiency),
                "band": pairing.efficiency_band,
                "note": "",
            }


def refused_rows(comparison: Comparison) -> Iterable[Row]:
    """A row a cell of which some repeats, or all, do not count; then the ratios that were refused."""
    for summary in comparison.summaries:
        if not summary.complete:
            yield {
                "what": summary.cell.id,
                "verdict": verdict_text(summary.verdict) if not summary.ok_repeats else "in part",
                "repeats that count": f"{summary.ok_repeats} of {summary.repeats}",
                "why": "; ".join(few(summary.reasons)) or "no reason was recorded",
            }
    counted = {(s.cell.hardware, s.cell.case) for s in comparison.summaries if s.ok_repeats}
    for pairing in comparison.pairings:
        if pairing.refused and (pairing.hardware, pairing.case) in counted:
            what = f"{pairing.hardware} over {pairing.baseline}: {pairing.case.id}"
            yield {"what": what, "verdict": "no ratio", "repeats that count": "", "why": pairing.refused}


def _described(text: str, rows: Sequence[Row]) -> str:
    more = len(rows) - MOST_ROWS
    return f"{text}. {more} more rows are in comparison.csv." if more > 0 else f"{text}."


def _ratio(ratio: Ratio | None) -> str:
    return format_ratio(ratio) if ratio else ""


def _verdict(comparison: Comparison, summary: Summary, pairing: Pairing | None) -> str:
    if summary.cell.hardware == comparison.baseline:
        return "baseline"
    return str(pairing.compute.outcome) if pairing and pairing.compute else "no ratio"


def _note(pairing: Pairing | None) -> str:
    if pairing is None:
        return ""
    why = pairing.compute.why if pairing.compute else ""
    confounded = f"confounded by {', '.join(pairing.confounds)}" if pairing.confounds else ""
    return "; ".join(filter(None, (pairing.refused, why, confounded)))


def _spot(offer: Offer) -> str:
    return ", spot" if offer.purchase == SPOT else ""
