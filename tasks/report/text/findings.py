"""What time and money come to, as plain text: offers, break-evens, bills, observations, box against box."""

from collections.abc import Sequence

from tasks.report.html.node_variation import siblings_text
from tasks.report.text.boxes import box
from tasks.results.finding_types import Bill, Offer
from tasks.results.format import format_seconds, format_usd, significant
from tasks.results.model import Comparison, Pairing
from tasks.results.values import Outcome

MANY = 12  # lines of a kind, before the rest is counted


def findings(comparison: Comparison) -> list[str]:
    """The parts that there is something to say in, in the order of their use."""
    suite = [offer for offer in comparison.offers if offer.case is None]
    parts = [
        ("Observations:", _lines(comparison.observations)),
        ("Box against box:", siblings_text(comparison.siblings)),
        ("Break-even by size:", _lines([crossing.sentence for crossing in comparison.crossings])),
        ("Break-even by price and by calls:", _lines(prices_and_calls(comparison.pairings))),
        ("One pass through the suite, by time and money:", offers_box(suite)),
        ("What the run was billed for:", bills_box(comparison.bills)),
    ]
    return [f"{head}\n{text}" for head, text in parts if text]


def offers_box(offers: Sequence[Offer]) -> str:
    """Machines at their prices, the cheapest first, with their place on or behind the front."""
    rows = [
        [o.hardware, o.purchase, format_seconds(o.seconds), format_usd(o.usd), standing(o)]
        for o in sorted(offers, key=lambda offer: offer.usd.value)
    ]
    return box(["Machine", "Price", "Time", "Cost", "Worth it"], rows) if len(rows) > 1 else ""


def standing(offer: Offer) -> str:
    """Say whether another offer is better."""
    if offer.dominated_by:
        return f"no, {offer.dominated_by} is better"
    return f"yes, as is {', '.join(offer.tied_with)}" if offer.tied_with else "yes"


def bills_box(bills: Sequence[Bill]) -> str:
    """Seconds and USD of each machine, its three largest parts, and what the steps alone would have cost."""
    rows = []
    for bill in bills:
        parts = sorted(bill.parts_s, key=lambda part: -part[1])[:3]
        shares = ", ".join(f"{name} {100 * (seconds / bill.billed_s):.0f} %" for name, seconds in parts)
        money = [format_usd(bill.usd), format_usd(bill.compute_usd)]
        rows.append([bill.hardware, format_seconds(bill.billed_s), *money, shares])
    if not rows:
        return ""
    notes = [f"* {bill.hardware}: {note}" for bill in bills for note in bill.notes]
    return "\n".join([box(["Machine", "Billed", "Cost", "Timed steps alone", "Most of it"], rows), *notes])


def prices_and_calls(pairings: Sequence[Pairing]) -> list[str]:
    """Up to which price a faster machine is the cheaper one, and after how many calls its start has paid.

    The break-even ratio of prices is the speedup itself: within its interval neither is shown to be cheaper.
    """
    sentences = []
    for p in pairings:
        if p.compute is None or p.compute.outcome is not Outcome.FASTER:
            continue
        low, high = (significant(v or 0.0, 3) for v in (p.compute.estimate.low, p.compute.estimate.high))
        text = f"{p.case.id}: {p.hardware} is cheaper while it costs less than {low} x {p.baseline} per hour"
        text += f", and dearer above {high} x"
        if p.payback_calls:
            text += f"; its longer start has paid after about {significant(p.payback_calls, 2)} calls"
        sentences.append(text)
    return sentences


def _lines(sentences: Sequence[str]) -> str:
    more = [f"and {len(sentences) - MANY} more"] if len(sentences) > MANY else []
    return "\n".join(f"* {sentence}" for sentence in [*sentences[:MANY], *more])
