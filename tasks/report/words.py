"""Numbers and verdicts in words, the same in every file of a report."""

from tasks.analysis.digits import format_ratio
from tasks.analysis.model import Outcome, Ratio, Summary
from workloads.harness.record import Verdict

MARKS = {Outcome.FASTER: "▲", Outcome.SLOWER: "▼", Outcome.UNDECIDED: "◆"}
FEW = 3
PLAIN = str.maketrans({"≈": "~", "×": "x", "–": "-", "·": "|", "µ": "u", "−": "-", "→": "->"})


def price_text(usd_per_hour: float | None) -> str:
    """A price as it was stated, with at least two decimals: never rounded."""
    if usd_per_hour is None:
        return "no price stated"
    digits = f"{usd_per_hour:.6f}".rstrip("0")
    return f"{usd_per_hour:.2f} USD/h" if len(digits.partition(".")[2]) < 2 else f"{digits} USD/h"


def verdict_text(verdict: Verdict) -> str:
    """A verdict as a word, such as `out of memory`."""
    return str(verdict).replace("_", " ")


def cost_word(outcome: Outcome) -> str:
    """The outcome of a cost ratio: above 1 is cheaper than the baseline."""
    return {Outcome.FASTER: "cheaper", Outcome.SLOWER: "dearer"}.get(outcome, "undecided")


def ratio_words(ratio: Ratio | None, cost: bool = False) -> str:
    """A ratio with its outcome, and what an undecided one lacks; a dash where there is no ratio."""
    if ratio is None:
        return "–"
    outcome = cost_word(ratio.outcome) if cost else str(ratio.outcome)
    why = f": {ratio.why}" if ratio.why else ""
    return f"{format_ratio(ratio)} {outcome}{why}"


def rate_text(value: float | None, unit: str) -> str:
    """A rate in four digits with an SI prefix, such as `1.234 TFLOP/s`; a dash where there is none."""
    if value is None:
        return "–"
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit}" if unit == "FLOP/s" else f"{value:,.0f} {unit}"
    return f"{value:.4g} {unit}"


def bytes_text(value: float | None) -> str:
    """Bytes in binary units, such as `6.4 GiB`; a dash where they are unknown."""
    if value is None:
        return "–"
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def trouble_text(summary: Summary) -> str:
    """Why a cell has no number: its verdict, then its reasons, the first ones of many."""
    more = [f"and {len(summary.reasons) - FEW} more reasons"] if len(summary.reasons) > FEW else []
    return "; ".join([verdict_text(summary.verdict), *summary.reasons[:FEW], *more])


def devices_text(devices: int) -> str:
    """What a machine computes on, such as `8 accelerators`."""
    return f"{devices} accelerator{'s' if devices > 1 else ''}" if devices else "CPU"
