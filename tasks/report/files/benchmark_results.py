"""`benchmark_results.json`: all results of a run in one file, for programs.

Keys, stable within `schema` 1. Times are in seconds. null: not measured or not stated.

    schema               1
    benchmark_timestamp  start of the run, ISO 8601
    run                  {run, suite, started_at, seed, gridbench_version}
    baseline             hardware that speedups are relative to
    hardware             [{name, usd_per_hour, price_source, price_flags, spot_usd_per_hour, devices, shape,
                         peak_flops, peak_bytes_per_s}]
    answer               at most four lines, the most useful first; `details` explain them, in sentences
    caveats              limits of the answer: {kind, reason}
    totals               [{hardware, cases, measured, seconds, usd, geomean_speedup: {value, low, high},
                         provisional}], `provisional` with the reason, or empty
    cells                one object for each cell: the columns of comparison.csv
    unpaired             sentences on cells without a matching baseline cell
    rows                 one object for each record: {run, hardware, case: {id, workload, size, precision, mode},
                         repeat, verdict, grade, reasons, compute_s, end_to_end_s, device_samples_s,
                         wall_samples_s, warmup_s, phases_s, inherited_s, unattributed_s, wall_s, work,
                         transfer, check, memory, training, group, profile, control, script, latency, device_s,
                         waiting_share, device_busy_s, sustained_share, energy_j, probes, missing,
                         threads, layout, device, started_at, environment_id}
    environments         fingerprint of machine and software by environment_id
    families             scaling of cases; `levels` has one object for each number of processes
    offers               time and cost: {hardware, purchase, case (its id, null for the suite), seconds,
                         usd, energy_j, dominated_by, tied_with}, seconds and usd as {value, low, high}
    crossings            break-evens by size: the fields of `tasks.findings.break_even.BreakEven`
    bills                bills of the machines: the fields of `Bill`, parts_s as {part: seconds}
    observations         further statements that the intervals support, in sentences
    confirmation         of a run that measures an earlier answer again: {run, verdict, claims: [{by, best, rival,
                         before, now, together, change, sessions, cases, verdict}]}, ratios as {value, low, high}
    siblings             comparison of machines of one kind: the fields of `NodeGroup`
    findings             findings by name: {title, columns: [{title, quantity, unit}], rows,
                         notes, sentences}

A run with whole jobs of several processes also has the keys of `tasks.report.files.epochs`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tasks.report.files.comparison_table import comparison_table
from tasks.report.files.epochs import epoch_keys
from tasks.report.files.findings import finding_keys
from tasks.report.grid import Grid
from tasks.report.info import RunInfo
from tasks.results.comparison import Comparison
from tasks.results.model import Family, Machine
from tasks.results.repeats import standing, standing_grade
from workloads.harness.records.record import Record, Timing

SCHEMA = 1


def benchmark_json(records: Sequence[Record], grid: Grid, run: RunInfo) -> dict[str, Any]:
    """Build the object of `benchmark_results.json`; its keys are in this module's docstring."""
    comparison, cells = grid.comparison, comparison_table(grid).astype(object)
    return {
        "schema": SCHEMA,
        "benchmark_timestamp": run.started_at,
        "run": asdict(run),
        "baseline": comparison.baseline,
        "hardware": [_hardware(machine) for machine in comparison.machines],
        "answer": list(comparison.answer),
        "details": list(comparison.details),
        "caveats": [caveat._asdict() for caveat in comparison.caveats],
        "totals": [asdict(total) for total in comparison.totals],
        "cells": cells.where(cells.notna(), None).to_dict("records"),
        "unpaired": list(comparison.unpaired),
        "rows": [_row(record, comparison) for record in records],
        "environments": {record.environment_id: record.environment for record in records},
        "families": [_family(family) for family in comparison.families],
        "observations": list(comparison.observations),
        **finding_keys(comparison),
        **epoch_keys(records, comparison),
    }


def _family(family: Family) -> dict[str, Any]:
    levels = [asdict(level) | {"cell": level.cell.id} for level in family.levels]
    base = family.base.cell.id if family.base else None
    return asdict(family) | {"size": dict(family.size), "base": base, "levels": levels}


def _hardware(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "usd_per_hour": machine.usd_per_hour,
        "price_source": machine.price_note or None,
        "price_flags": list(machine.price_flags),
        "spot_usd_per_hour": machine.spot_usd_per_hour,
        "devices": machine.devices,
        "shape": machine.shape,
        "peak_flops": dict(machine.peak_flops),
        "peak_bytes_per_s": machine.peak_bytes_per_s,
    }


def _samples(timing: Timing | None) -> list[float]:
    return list(timing.samples_s) if timing else []


def _row(record: Record, comparison: Comparison) -> dict[str, Any]:
    verdict, reasons = standing(record, comparison.refusals)
    case, timing = record.case, record.device_time or record.wall
    kept = ("work", "transfer", "check", "memory", "training", "group", "profile", "control", "script")
    return {
        "run": record.run,
        "hardware": record.hardware,
        "case": {
            "id": case.id,
            "workload": case.workload,
            "size": case.params,
            "precision": case.precision,
            "mode": case.mode,
        },
        "repeat": record.repeat,
        "verdict": str(verdict),
        "grade": str(standing_grade(record, comparison.refusals)),
        "reasons": list(reasons),
        "compute_s": record.compute_s,
        "end_to_end_s": record.end_to_end_s,
        "device_samples_s": _samples(record.device_time),
        "wall_samples_s": _samples(record.wall),
        "warmup_s": list(timing.warmup_s) if timing else [],
        "phases_s": record.phases_s,
        "inherited_s": record.inherited_s,
        "unattributed_s": record.unattributed_s,
        "wall_s": record.wall_s,
        **{name: asdict(value) if (value := getattr(record, name)) else None for name in (*kept, "latency")},
        "device_s": record.device_s,
        "waiting_share": record.waiting_share,
        "device_busy_s": record.device_busy_s,
        "sustained_share": record.sustained_share,
        "energy_j": record.energy_j,
        "probes": record.probes,
        "missing": record.missing,
        "threads": record.threads,
        "layout": record.layout,
        "device": record.device,
        "started_at": record.started_at,
        "environment_id": record.environment_id,
    }
