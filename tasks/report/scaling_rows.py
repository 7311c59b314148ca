"""Scaling of processes as texts."""

from collections.abc import Sequence
from typing import Any

from tasks.findings.scaling_families import base_words
from tasks.report.grid import median_of
from tasks.results.comparison import Comparison
from tasks.results.format import format_estimate, format_percent, format_ratio, format_seconds, significant
from tasks.results.model import Family, ScalingLevel
from tasks.results.wording import bytes_text, few, verdict_text
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record

LISTED_RANKS = 4  # the memory of more ranks is shown as a range
_LAWS = {"strong": "Karp and Flatt", "weak": "Gustafson"}
_JOB = "Strong scaling of the whole job: its processes share it, whatever the batch size of each."
_KINDS = {
    "strong": "Strong scaling: the same work on more processes.",
    "weak": "Weak scaling: the same work on each process.",
}


def family_tables(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "title": family.title,
            "hardware": family.hardware,
            "kind": _JOB if family.whole else _KINDS.get(family.scaling, ""),
            "base": base_words(family),
            "law": _LAWS.get(family.scaling, ""),
            "step": "Time of the job" if family.whole else "Time per step",
            "notes": family.notes,
            "rows": [level_row(level) for level in family.levels],
        }
        for family in comparison.families
    ]


def level_row(level: ScalingLevel) -> dict[str, Any]:
    fraction = level.serial_fraction
    css = {"perfect": "faster", "very good": "faster", "good": "faster", "poor": "slower"}
    return {
        "processes": processes_text(level),
        "time": format_seconds(level.step_s) if level.step_s else verdict_text(level.verdict),
        "ok": level.step_s is not None,
        "throughput": format_estimate(level.units_per_s, f" {level.unit}/s") if level.units_per_s else "–",
        "speedup": format_ratio(level.over_base),
        "over_one": format_ratio(level.over_group_of_one),
        "efficiency": format_percent(level.efficiency),
        "band": "impossible" if level.impossible else level.band,
        "css": "slower" if level.impossible else css.get(level.band, "unsure"),
        # Above 1, more processes are slower than one process, which the fraction cannot explain.
        "serial": "over 100 %" if fraction is not None and fraction > 1 else _percent(fraction),
        "communication": _percent(level.communication_share),
        "spread": _percent(level.spread),
        "memory": memory_text(level),
        "repeats": f"{level.ok_repeats} of {level.repeats}",
        "why": [text for text in (level.impossible, level.refused, *few(level.reasons)) if text],
    }


def processes_text(level: ScalingLevel) -> str:
    """Add `no DDP` without a group."""
    return f"{level.processes}" if level.grouped else f"{level.processes}, no DDP"


def memory_text(level: ScalingLevel) -> str:
    """Return each rank's peak, or the range of many; `?` if unknown."""
    ranks = [bytes_text(held) if held else "?" for held in level.memory_bytes]
    available = [held for held in level.memory_bytes if held]
    if not available:
        return "–"
    if len(ranks) <= LISTED_RANKS:
        return ", ".join(ranks)
    ends = dict.fromkeys((bytes_text(min(available)), bytes_text(max(available))))
    unknown = len(ranks) - len(available)
    return f"{' to '.join(ends)} each" + (f", {unknown} unknown" if unknown else "")


def families_of_interest(comparison: Comparison) -> list[Family]:
    """Return those of whole jobs if any, else all."""
    jobs = [family for family in comparison.families if family.whole]
    return jobs or list(comparison.families)


def median_repeat(records: Sequence[Record], level: ScalingLevel | None) -> Record | None:
    """Return the valid repeat with the median time."""
    cell = level.cell if level and level.ok_repeats else None
    same = [r for r in records if cell and r.cell == cell and counts(r) and r.wall]
    return median_of(same, lambda record: record.wall.median_s if record.wall else 0.0) if same else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{significant(100 * value, 2)} %"
