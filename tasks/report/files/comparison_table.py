"""A comparison as data frame."""

from typing import Any

import pandas as pd

from tasks.pricing.checks import source_text
from tasks.report.grid import Grid
from tasks.results.comparison import Comparison
from tasks.results.model import Machine, Pairing, Summary
from tasks.results.values import Estimate, Ratio
from tasks.store.frames import case_columns
from workloads.harness.roofline.roofline import LIMITS


def comparison_table(grid: Grid) -> pd.DataFrame:
    """Return a row per cell: times and ratios, or why they are missing."""
    comparison = grid.comparison
    machines = {machine.name: machine for machine in grid.machines}
    return pd.DataFrame(
        _cell(comparison, summary, machines[summary.cell.hardware])
        | _paired(grid.pairings.get((summary.cell.hardware, summary.cell.case)))
        | _estimate("usd_per_million_units", summary.usd_per_million_units)
        for summary in comparison.summaries
    )


def _cell(comparison: Comparison, summary: Summary, machine: Machine) -> dict[str, Any]:
    bound = summary.bound
    return {
        "cell": summary.cell.id,
        "hardware": summary.cell.hardware,
        **case_columns(summary.cell.case),
        "baseline": comparison.baseline,
        "is_baseline": summary.cell.hardware == comparison.baseline,
        "verdict": str(summary.verdict),
        "grade": str(summary.grade),
        "reasons": "; ".join(summary.reasons),
        "repeats": summary.repeats,
        "ok_repeats": summary.ok_repeats,
        **_estimate("compute_s", summary.compute_s),
        **_estimate("end_to_end_s", summary.end_to_end_s),
        "median_s": summary.median_s,
        "cold_s": summary.cold_s,
        "units_per_s": summary.units_per_s,
        "unit": summary.unit,
        "flops_per_s": summary.flops_per_s,
        "threads": summary.threads,
        "device": summary.device,
        "bound_by": bound.by if bound else "",
        "bound_why": bound.why if bound else "",
        **{f"share_of_{limit}": bound.shares.get(limit) if bound else None for limit in LIMITS},
        "launch_bound": summary.launch_bound if summary.busy_share else None,
        **_estimate("device_s", summary.device_s),
        "waiting_share": summary.waiting_share.value if summary.waiting_share else None,
        **_estimate("busy_share", summary.busy_share),
        **_estimate("sustained_share", summary.sustained_share),
        "usd_per_hour": machine.usd_per_hour,
        "price_note": source_text(machine.price_note, machine.price_flags),
    }


def _paired(pairing: Pairing | None) -> dict[str, Any]:
    return {
        **_ratio("compute_speedup", pairing.compute if pairing else None),
        **_ratio("end_to_end_speedup", pairing.end_to_end if pairing else None),
        **_estimate("efficiency", pairing.efficiency if pairing else None),
        "efficiency_band": pairing.efficiency_band if pairing else "",
        "scaling": pairing.scaling if pairing else "",
        "serial_fraction": pairing.serial_fraction if pairing else None,
        **_ratio("cost_efficiency", pairing.cost if pairing else None),
        "confounds": "; ".join(pairing.confounds) if pairing else "",
        "refused": pairing.refused if pairing else "",
    }


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Any]:
    return {
        name: estimate.value if estimate else None,
        f"{name}_low": estimate.low if estimate else None,
        f"{name}_high": estimate.high if estimate else None,
    }


def _ratio(name: str, ratio: Ratio | None) -> dict[str, Any]:
    return {
        **_estimate(name, ratio.estimate if ratio else None),
        f"{name}_outcome": str(ratio.outcome) if ratio else "",
        f"{name}_why": ratio.why if ratio else "",
    }
