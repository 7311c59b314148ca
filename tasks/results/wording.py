"""Numbers and verdicts in words, the same in every file of a report."""

from collections.abc import Sequence

from tasks.results.format import format_percent
from tasks.results.model import Summary, Total
from tasks.results.values import RatioVerdict
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade, Verdict

MARKS = {RatioVerdict.FASTER: "▲", RatioVerdict.SLOWER: "▼", RatioVerdict.UNDECIDED: "◆"}
WIDE_MARK = "≈"
FEW = 3
_PREFIXED = ("FLOP/s", "B/s")
PLAIN = str.maketrans({"≈": "~", "×": "x", "–": "-", "·": "|", "µ": "u", "−": "-", "→": "->", "±": "+/-"})


def price_text(usd_per_hour: float | None) -> str:
    """A price as it was stated, with at least two decimals: never rounded."""
    if usd_per_hour is None:
        return "no price stated"
    digits = f"{usd_per_hour:.6f}".rstrip("0")
    return f"{usd_per_hour:.2f} USD/h" if len(digits.partition(".")[2]) < 2 else f"{digits} USD/h"


def verdict_text(verdict: Verdict) -> str:
    """A verdict as a word, such as `out of memory`."""
    return str(verdict).replace("_", " ")


def graded_text(verdict: Verdict, grade: Grade) -> str:
    """A verdict as a word, with its grade where it is wide, such as `imprecise (wide)`."""
    return f"{verdict_text(verdict)} (wide)" if grade is Grade.WIDE else verdict_text(verdict)


def rate_text(value: float | None, unit: str) -> str:
    """A rate in four digits with an SI prefix, such as `1.234 TFLOP/s`; a dash where there is none."""
    if value is None:
        return "–"
    unit = "B/s" if unit == "bytes/s" else unit
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit}" if unit in _PREFIXED else f"{value:,.0f} {unit}"
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
    """Say why a cell has no number: its verdict, then the first reasons for that."""
    return "; ".join([verdict_text(summary.verdict), *few(summary.why)])


def pace_texts(summary: Summary) -> list[str]:
    """Say of a cell that its steps wait for their host, and what a soak leaves of its speed."""
    texts = []
    if summary.launch_bound:
        share = format_percent(summary.busy_share)
        texts.append(f"launch-bound: the device computes for {share} of a step")
    if summary.sustained_share:
        texts.append(f"sustained: {format_percent(summary.sustained_share)} of its speed in the first second")
    return texts


def size_text(case: Case) -> str:
    """Return a size as people read it, such as `pixels=4096, batch=2`."""
    return ", ".join(f"{name}={value}" for name, value in case.size)


def case_text(case: Case) -> str:
    """Return a case in words, such as `matmul n=400 fp32`."""
    return " ".join(filter(None, (case.workload, *(f"{k}={v}" for k, v in case.size), case.terms)))


def script_text(case: Case) -> str:
    """Return the name and the size of a script's case, such as `train batch=16, workers=2`."""
    return f"{case.workload} {size_text(case)}".rstrip()


def few(reasons: Sequence[str]) -> list[str]:
    """The first reasons, and how many more there are."""
    more = len(reasons) - FEW
    return [*reasons[:FEW], f"and {more} more reasons"] if more > 1 else list(reasons)


def devices_text(devices: int) -> str:
    """Name what a machine computes on, such as `8 accelerators`."""
    return f"{devices} accelerator{'s' if devices > 1 else ''}" if devices else "CPU"


def totals_text(totals: Sequence[Total]) -> str:
    """Say beside totals whether they are provisional, and what their intervals take for granted."""
    told = list(dict.fromkeys(provisional_text(total.provisional) for total in totals))
    if any(total.cases > 1 and total.speedup and total.speedup.low is not None for total in totals):
        told.append(
            "Intervals of totals assume that the cells' errors are independent: if a machine drifts during the "
            "whole run, they are too narrow."
        )
    return " ".join(filter(None, told))


def provisional_text(why: str) -> str:
    """Say of a total why it is provisional, in a sentence; empty where it isn't."""
    return f"The total is provisional: {why}." if why else ""
