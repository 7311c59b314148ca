"""Numbers and verdicts in words, alike in all files."""

import re
from collections.abc import Sequence

from tasks.results.format import format_percent, format_seconds
from tasks.results.model import Summary, Total
from tasks.results.values import RatioVerdict
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade, Record, Verdict

MARKS = {RatioVerdict.FASTER: "▲", RatioVerdict.SLOWER: "▼", RatioVerdict.UNDECIDED: "◆"}
WIDE_MARK = "≈"
FEW = 3
CHANGED = "-dirty"  # ends a commit with uncommitted changes, before the hash of the code that ran
CODE_ID = re.compile(rf"([0-9a-f]{{7,64}})({CHANGED})?(?:-([0-9a-f]{{8,64}}))?")
SHORT_CODE = 8  # digits of a commit or hash that are shown
PLAIN = str.maketrans({"≈": "~", "×": "x", "–": "-", "·": "|", "µ": "u", "−": "-", "→": "->", "±": "+/-"})


def price_text(usd_per_hour: float | None) -> str:
    """Write at least two decimals, not rounded."""
    if usd_per_hour is None:
        return "no price stated"
    digits = f"{usd_per_hour:.6f}".rstrip("0")
    return f"{usd_per_hour:.2f} USD/h" if len(digits.partition(".")[2]) < 2 else f"{digits} USD/h"


def verdict_text(verdict: Verdict) -> str:
    """Return such as `out of memory`."""
    return str(verdict).replace("_", " ")


def graded_text(verdict: Verdict, grade: Grade) -> str:
    """Return such as `noisy (wide)`."""
    can_be_wide = verdict.grade is Grade.WIDE
    return f"{verdict_text(verdict)} ({grade})" if can_be_wide else verdict_text(verdict)


def code_of(record: Record) -> str | None:
    """Return the id of a script's tree, or a commit.

    Uncommitted changes add `-dirty`, then the hash of the files that ran, if known.
    """
    if record.script:
        return record.script.code or None
    commit, code = (record.environment.get(name) for name in ("commit", "code"))
    if not isinstance(commit, str) or not commit:
        return None
    is_changed = commit.endswith(CHANGED) and isinstance(code, str) and code
    return f"{commit}-{code}" if is_changed else commit


def files_of(record: Record) -> str | None:
    """Return the hash of measured files."""
    code = record.script.code if record.script else record.environment.get("code")
    return code if isinstance(code, str) and code else None


def code_text(code: str) -> str:
    """Return `d1e4668d`, or `d1e4668d+1a2b3c4d` if uncommitted."""
    if match := CODE_ID.fullmatch(code):
        commit, is_changed, files = match.groups()
        return f"{commit[:SHORT_CODE]}{'+' if is_changed else ''}{(files or '')[:SHORT_CODE]}"
    return code.removeprefix("sha256:")[:SHORT_CODE]


def bytes_text(value: float | None) -> str:
    """Return such as `6.4 GiB`; a dash for None."""
    if value is None:
        return "–"
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def trouble_text(summary: Summary) -> str:
    """Return the verdict, then first reasons."""
    return "; ".join([verdict_text(summary.verdict), *few(summary.why)])


def pace_texts(summary: Summary) -> list[str]:
    """Return the device's wait, and its speed after a soak."""
    texts = []
    if summary.waits:
        bound = "launch-bound: " if summary.launch_bound else ""
        share = format_percent(summary.waiting_share)
        texts.append(f"{bound}the device waits for its host for {share} of a step")
        texts.append(f"device time {format_seconds(summary.device_s)}")
    if summary.sustained_share:
        texts.append(f"sustained: {format_percent(summary.sustained_share)} of its speed in the first second")
    return texts


def size_text(case: Case) -> str:
    """Return such as `pixels=4096, batch=2`."""
    return ", ".join(f"{name}={value}" for name, value in case.size)


def case_text(case: Case) -> str:
    """Return such as `matmul n=400 fp32`."""
    return " ".join(filter(None, (case.workload, *(f"{k}={v}" for k, v in case.size), case.terms)))


def script_text(case: Case) -> str:
    """Return such as `train batch=16, workers=2`."""
    return f"{case.workload} {size_text(case)}".rstrip()


def few(reasons: Sequence[str]) -> list[str]:
    """Return the first ones, and the number of others."""
    more = len(reasons) - FEW
    return [*reasons[:FEW], f"and {more} more reasons"] if more > 1 else list(reasons)


def devices_text(devices: int) -> str:
    """Return such as `8 accelerators`."""
    return f"{devices} accelerator{'s' if devices > 1 else ''}" if devices else "CPU"


def totals_text(totals: Sequence[Total]) -> str:
    """Return whether they are provisional, and the intervals' assumption."""
    sentences = list(dict.fromkeys(provisional_text(total.provisional) for total in totals))
    if any(total.cases > 1 and total.speedup and total.speedup.low is not None for total in totals):
        sentences.append(
            "Intervals of totals assume that the cells' errors are independent: if a machine drifts during the "
            "whole run, they are too narrow."
        )
    return " ".join(filter(None, sentences))


def provisional_text(why: str) -> str:
    """Return empty if it is not provisional."""
    return f"The total is provisional: {why}." if why else ""
