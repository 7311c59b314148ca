"""The bound of each cell: its middle repeat, compared with its machine's ceilings."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from workloads.harness.records.amounts import is_amount, is_duration
from workloads.harness.records.case import HELPERS, Case, Cell
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.records.text import seconds, table
from workloads.harness.registry import declared
from workloads.harness.roofline.ceilings import Ceiling, Ceilings, MachineKey, ceilings_by_machine, machine_of
from workloads.harness.roofline.roofline import Bound, bound, percent, si

HEAD = ["cell", "time per step", "of compute", "of memory", "bound by", "why"]


@dataclass(frozen=True, slots=True)
class BoundCell:
    """A cell's middle repeat, and its bound."""

    record: Record
    bound: Bound


def bounds(records: Sequence[Record]) -> list[BoundCell]:
    records = [record for record in records if _possible(record)]
    ceilings = ceilings_by_machine(records)
    repeats: dict[Cell, list[Record]] = {}
    for record in records:
        if counts(record) and record.compute_s:
            repeats.setdefault(record.cell, []).append(record)
    middle = [_median_repeat(of_cell) for of_cell in repeats.values()]
    rows = []
    for record in middle:
        cells_bound = bound(record, ceilings[machine_of(record)], _without_loader(record, middle))
        if cells_bound:
            rows.append(BoundCell(record, cells_bound))
    return rows


def _possible(record: Record) -> bool:
    times = (timing.median_s for timing in (record.wall, record.device_time) if timing)
    work = (record.work.units, record.work.flops, record.work.bytes) if record.work else ()
    return all(map(is_duration, times)) and all(map(is_amount, work))


def roofline_text(records: Sequence[Record]) -> str:
    rows = bounds(records)
    parts = [
        _ceilings_text(key, ceilings)
        for key, ceilings in ceilings_by_machine(r for r in records if counts(r) and _possible(r)).items()
    ]
    parts.append(table([HEAD, *map(_line, rows)]))
    parts.extend(dict.fromkeys(text for row in rows for text in row.bound.missing))
    if left_out := len({record.cell for record in records}) - len(rows):
        parts.append(
            f"{left_out} cell{'s have' if left_out > 1 else ' has'} no valid record and can't be placed"
        )
    return "\n".join(parts)


def roofline_json(records: Sequence[Record]) -> str:
    names = ("hardware", "environment_id", "device", "threads")
    machines = [
        dict(zip(names, key, strict=True)) | asdict(ceilings)
        for key, ceilings in ceilings_by_machine(r for r in records if counts(r) and _possible(r)).items()
    ]
    cells = [
        {"record": row.record.id, "time_s": row.record.compute_s, **asdict(row.bound)}
        for row in bounds(records)
    ]
    return json.dumps({"ceilings": machines, "cells": cells}, allow_nan=False)


def _median_repeat(records: Sequence[Record]) -> Record:
    ordered = sorted(records, key=lambda record: record.compute_s or 0.0)
    profile = next((record.profile for record in records if record.profile), None)
    return replace(ordered[(len(ordered) - 1) // 2], profile=profile)


def case_without_loader(case: Case) -> Case | None:
    workload = declared(case.workload)
    if workload is None or workload.kind != "loader" or workload.of is None:
        return None
    size = tuple(pair for pair in case.size if pair[0] not in HELPERS)
    return Case(workload.of, size, case.precision, case.mode)


def _without_loader(record: Record, others: Iterable[Record]) -> Record | None:
    if (alone := case_without_loader(record.case)) is None:
        return None
    same = (other for other in others if machine_of(other) == machine_of(record))
    return next((other for other in same if other.case == alone), None)


def _line(row: BoundCell) -> list[str]:
    shares = row.bound.shares
    of_ceiling = [percent(shares[name]) if name in shares else "–" for name in ("compute", "memory")]
    return [row.record.cell.id, seconds(row.record.compute_s), *of_ceiling, row.bound.by, row.bound.why]


def _ceilings_text(key: MachineKey, ceilings: Ceilings) -> str:
    hardware, environment, device, threads = key
    rows = [(f"compute {precision}", "FLOP/s", ceiling) for precision, ceiling in ceilings.compute]
    rows += [(name, "B/s", c) for name, c in (("memory", ceilings.memory), ("cache", ceilings.cache)) if c]
    rows += [(f"gemv {precision}", "B/s", ceiling) for precision, ceiling in ceilings.gemv]
    rows += [(f"move {kind}", "B/s", ceiling) for kind, ceiling in ceilings.moves]
    lines = [f"  {name:<20}{si(c.value) + unit:<15}{_source(c)}" for name, unit, c in rows]
    if ceilings.launch_s:
        lines.append(f"  {'launch':<20}{seconds(ceilings.launch_s.value):<15}{_source(ceilings.launch_s)}")
    machine = f"{hardware} ({device}, {threads} threads{', ' + environment if environment else ''})"
    return "\n".join([f"ceilings of {machine}:", *(lines or ["  not measured"])])


def _source(ceiling: Ceiling) -> str:
    return f"{ceiling.source}{'; ' + ceiling.note if ceiling.note else ''}"
