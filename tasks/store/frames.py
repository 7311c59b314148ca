"""Records as a data frame."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tasks.plausibility.contradictions import out_of_range
from tasks.results.repeats import RecordKey, standing, standing_grade
from tasks.results.wording import code_of, files_of, size_text
from workloads.harness.probes.machine import machine_id
from workloads.harness.records.case import Case
from workloads.harness.records.grade import is_restless
from workloads.harness.records.record import Record, Timing

_STACK = ("torch", "cuda", "driver", "python")


def results_table(
    records: Sequence[Record], refusals: Mapping[RecordKey, tuple[str, ...]] | None = None
) -> pd.DataFrame:
    """Return a row per record, in order.

    A valid record in `refusals` has the verdict `impossible`, or `wrong` for its training. Sizes are text
    (`size`, `size_<name>`), phases `phase_<name>_s`, reported numbers `metrics`.
    """
    sizes = _names(name for record in records for name in record.case.params)
    phases = _names(name for record in records for name in record.phases_s)
    has_metrics = any(record.metrics for record in records)
    rows = [
        _identity(record, refusals or {})
        | {f"size_{name}": _text(record.case.params.get(name)) for name in sizes}
        | _measured(record)
        | {f"phase_{name}_s": record.phases_s.get(name) for name in phases}
        | ({"metrics": _metrics(record)} if has_metrics else {})
        | _circumstances(record)
        for record in records
    ]
    return pd.DataFrame(rows)


def case_columns(case: Case) -> dict[str, Any]:
    """Return text by column."""
    return {
        "case": case.id,
        "workload": case.workload,
        "size": size_text(case),
        "precision": case.precision,
        "mode": case.mode,
    }


def _names(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _identity(record: Record, refusals: Mapping[RecordKey, tuple[str, ...]]) -> dict[str, Any]:
    verdict, reasons = standing(record, refusals)
    return {
        "run": record.run,
        "cell": record.cell.id,
        "hardware": record.hardware,
        **case_columns(record.case),
        "repeat": record.repeat,
        "verdict": str(verdict),
        "grade": str(standing_grade(record, refusals)),
        "reasons": "; ".join(reasons),
    }


def _measured(record: Record) -> dict[str, Any]:
    timing, work, memory = record.device_time or record.wall, record.work, record.memory
    seconds = record.mean_s
    return {
        "compute_s": record.compute_s,
        "mean_s": seconds,
        "compute_ci_low_s": timing.ci_low_s if timing else None,
        "compute_ci_high_s": timing.ci_high_s if timing else None,
        "end_to_end_s": record.end_to_end_s,
        "wall_per_step_s": record.wall.median_s if record.wall else None,
        **_spread(timing),
        "units_per_s": _rate(work.units if work else None, seconds),
        "unit": work.unit if work else None,
        "flops_per_s": _rate(work.flops if work else None, seconds),
        "check_error": record.check.error if record.check else None,
        "peak_rss_bytes": memory.peak_rss_bytes if memory else None,
        "device_allocated_bytes": memory.device_allocated_bytes if memory else None,
        "device_reserved_bytes": memory.device_reserved_bytes if memory else None,
        "process_total_bytes": memory.process_total_bytes if memory else None,
        "device_s": record.device_s,
        "waiting_share": record.waiting_share,
        "device_busy_s": record.device_busy_s,
        "sustained_share": record.sustained_share,
        "energy_j": record.energy_j,
        "wall_s": record.wall_s,
    }


def _metrics(record: Record) -> str | None:
    return json.dumps({metric.name: metric.value for metric in record.metrics}) if record.metrics else None


def _rate(work: float | None, seconds: float | None) -> float | None:
    rate = work / seconds if work and seconds and not out_of_range(seconds) else math.inf
    return rate if math.isfinite(rate) else None


def _spread(timing: Timing | None) -> dict[str, Any]:
    return {
        "samples": len(timing.samples_s) if timing else 0,
        "block": timing.block if timing else None,
        "p95_s": timing.p95_s if timing else None,
        "max_s": timing.max_s if timing else None,
        "outliers_mild": timing.outliers_mild if timing else None,
        "outliers_severe": timing.outliers_severe if timing else None,
        "steady": timing.steady if timing else None,
        "precision_reached": timing.precision_reached if timing else None,
    }


def _circumstances(record: Record) -> dict[str, Any]:
    return {
        "unattributed_s": record.unattributed_s,
        "threads": record.threads,
        "layout": record.layout,
        "device": record.device,
        "order": record.order,
        "seed": record.seed,
        "started_at": record.started_at,
        "environment_id": record.environment_id,
        "code": files_of(record),
        **{name: _text(record.environment.get(name)) for name in _STACK},
        **_of_nights(record),
    }


def _of_nights(record: Record) -> dict[str, Any]:
    control, found = record.control, record.environment
    return {
        "restless": is_restless(record),
        "session": record.session,
        "control_s": control.compute_s if control else None,
        "control_verdict": control.verdict if control else None,
        "reference": (control.reference or None) if control else None,  # a failed control reports none
        "machine_id": _machine_id(found),
        "commit": _text(code_of(record)),
        "hostname": _text(found.get("hostname")),
    }


def _machine_id(found: Mapping[str, Any]) -> str | None:
    """Return None for an invalid id; fingerprints can have any content."""
    try:
        return machine_id(found) if found else None
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None
