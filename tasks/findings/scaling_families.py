"""Scaling with processes, and the cost of DDP or FSDP itself.

The base is one process without either. A rate is the work of all processes over the slowest one's time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tasks.plausibility.coherence import superlinear
from tasks.results.format import format_percent, format_ratio
from tasks.results.model import Family, ScalingLevel
from tasks.results.repeats import Repeats
from tasks.results.scaling import ABOVE_LINEAR, TOO_GOOD, band, efficiency, serial
from tasks.results.speedup import speedup
from tasks.results.summaries import median_or_none, over_repeats
from tasks.results.values import Estimate, Ratio
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Memory, Record, Verdict
from workloads.harness.registry import declared

PROCESSES = "processes"
AGAIN = "on a busy machine, or on one whose speed varied: measure again on an idle machine"
SAME_WORK = 1.1  # jobs that differ by less do the same work: an epoch drops its last, incomplete batch

Key = tuple[str, str, tuple[tuple[str, int], ...], str]


def families(cells: Sequence[Repeats]) -> tuple[Family, ...]:
    by_key: dict[Key, list[Repeats]] = defaultdict(list)
    by_base: dict[tuple[str, str], list[Repeats]] = defaultdict(list)
    for cell in cells:
        hardware, case = cell.cell.hardware, cell.cell.case
        by_base[hardware, _bases(case.workload)[-1]].append(cell)
        if PROCESSES in case.params:
            size = tuple(p for p in case.size if p[0] != PROCESSES)
            by_key[hardware, case.workload, size, case.terms].append(cell)
    return tuple(_family(key, each, by_base[key[0], _bases(key[1])[-1]]) for key, each in by_key.items())


def sentences(found: Sequence[Family]) -> list[str]:
    statements = []
    for family in found:
        level = max(family.levels, key=lambda level: level.processes, default=None)
        if level and family.base and level.efficiency and level.over_base and not level.impossible:
            if level.efficiency.low is None:
                continue
            mark = "; provisional" if Verdict.NOISY in (level.verdict, family.base.verdict) else ""
            statements.append(
                f"{family.title} on {family.hardware}: {level.processes} processes are "
                f"{format_ratio(level.over_base)} as fast as {base_words(family)}, "
                f"{format_percent(level.efficiency)} {family.scaling} scaling: {level.band}{mark}."
            )
    return statements


def base_words(family: Family) -> str:
    if family.base is None:
        return "nothing"
    return f"one process {'with' if family.base.grouped else 'without'} {_wrapper(family.workload)}"


def base_of(key: Key, whole: bool, cells: Sequence[Repeats]) -> Repeats | None:
    """Return the cell of one process without a group.

    It shares hardware, precision, parameters, and whether it measures whole jobs.
    """
    hardware, workload, size, precision = key
    for cell in cells:
        case = cell.cell.case
        # a workload of several processes exchanges something unless the record shows that it had no group
        alone = PROCESSES not in case.params or (
            _count(cell) == 1 and bool(cell.usable) and not _groups(cell)
        )
        same = (cell.cell.hardware, case.terms) == (hardware, precision) and case.workload in _bases(workload)
        if alone and same and _whole(cell) == whole:
            file, own = declared(case.workload), {k: v for k, v in case.size if k != PROCESSES}
            if own == {k: v for k, v in size if k in (file.sizes if file else own)}:
                return cell
    return None


def _bases(workload: str) -> tuple[str, ...]:
    file = declared(workload)
    return (workload, file.of) if file and file.of else (workload,)


def _wrapper(workload: str) -> str:
    file = declared(workload)
    return file.wrapper if file else "DDP"


def _whole(cell: Repeats) -> bool:
    return any(record.wall is not None and record.wall.whole for record in cell.records)


def _family(key: Key, members: Sequence[Repeats], cells: Sequence[Repeats]) -> Family:
    whole = any(map(_whole, members))
    alone = base_of(key, whole, cells)
    grouped = sorted((cell for cell in members if cell is not alone), key=_count)
    group_of_one = next((cell for cell in grouped if _count(cell) == 1), None)
    fair = alone if alone and _alike(alone, grouped) else None
    base = next((cell for cell in (fair, group_of_one) if cell and _times(cell)), None)
    # the steps of a whole job that every process does can be weak, but the job is strong
    works = [cell.units for cell in grouped if cell.units]
    kind = next((r.group.scaling for cell in grouped for r in cell.records if r.group), "")
    kind = "strong" if whole and works and max(works) < SAME_WORK * min(works) else kind
    first = (
        [replace(_level(alone, fair and base, fair and group_of_one, kind), grouped=False)] if alone else []
    )
    levels = (*first, *(_level(cell, base, group_of_one, kind) for cell in grouped))
    return Family(
        hardware=key[0],
        workload=key[1],
        size=key[2],
        precision=key[3],
        scaling=kind,
        whole=whole,
        base=next((level for level in levels if base and level.cell == base.cell), None),
        levels=levels,
        notes=tuple(_notes(grouped, alone, base, whole, _wrapper(key[1]))),
    )


def _alike(alone: Repeats, grouped: Sequence[Repeats]) -> bool:
    """Return whether one process had as many CPU threads as each of a group; on a GPU none compute."""
    ours, theirs = _threads([alone]), _threads(grouped)
    return not ours or not theirs or ours == theirs


def _threads(cells: Sequence[Repeats]) -> set[int]:
    return {r.threads for cell in cells for r in cell.usable if r.device == "cpu" and r.threads}


def _level(cell: Repeats, base: Repeats | None, one: Repeats | None, kind: str) -> ScalingLevel:
    usable = cell.usable
    step, units = over_repeats(_times(cell)), cell.units
    # peak bytes by rank, from the rank's process, the maximum over the repeats
    peaks: dict[int, list[int]] = defaultdict(list)
    for record in usable:
        for rank, peak in _peaks(record):
            peaks[rank] += [peak] if peak else []
    level = ScalingLevel(
        cell=cell.cell,
        processes=_count(cell),
        grouped=True,
        verdict=cell.verdict,
        reasons=cell.reasons,
        repeats=len(cell.records),
        ok_repeats=len(usable),
        step_s=step,
        units=units,
        unit=next((r.work.unit for r in usable if r.work), ""),
        units_per_s=_rate(step, units) if step and units else None,
        over_base=_faster(cell, base) if base is not cell else None,
        over_group_of_one=_faster(cell, one) if one is not cell else None,
        communication_share=median_or_none(g.communication_share for g in _groups(cell)),
        spread=median_or_none(g.spread for g in _groups(cell)),
        memory_bytes=tuple(max(peaks[rank], default=None) for rank in range(_count(cell))),
    )
    return level if base is None or base is cell else _judged(level, cell, base, kind)


def _judged(level: ScalingLevel, cell: Repeats, base: Repeats, kind: str) -> ScalingLevel:
    ratio = _device_ratio(cell, base)
    if level.over_base is None or ratio is None:
        return level
    if ratio <= 1 and level.processes > 1:
        threads = (cell.usable[0].threads or 0) * level.processes
        return replace(
            level,
            refused=f"{level.processes} processes have {threads} threads together, and the base has as many or more: "
            "measure the base with the threads of one process",
        )
    gain = level.over_base.estimate
    share = efficiency(gain, max(ratio, 1.0))
    name = band(share)
    if name == TOO_GOOD and (cell.provisional or base.provisional):
        return replace(level, refused=f"{format_percent(share)} scaling {AGAIN}")
    reason = superlinear(share, ratio, "the base") or ""
    if name == TOO_GOOD and not reason:
        reason = f"above {100 * ABOVE_LINEAR:.0f} % by one repeat, without an interval: measure more repeats"
    fraction = None if reason else serial(kind, gain.value, ratio)
    shown = name if level.processes > 1 else ""  # a group of one shows the cost of the group, not its scaling
    return replace(level, efficiency=share, band=shown, impossible=reason, serial_fraction=fraction)


def _notes(
    grouped: Sequence[Repeats], alone: Repeats | None, base: Repeats | None, whole: bool, wrapper: str
) -> list[str]:
    notes: list[str] = []
    if alone is None or not _times(alone):
        why = "was not measured" if alone is None else f"is {alone.verdict}"
        what = f"so the cost of {wrapper} itself is unknown"
        notes.append(f"One process without {wrapper} {why}, {what}.")
    elif not _alike(alone, grouped):
        ours, theirs = (", ".join(map(str, sorted(_threads(c)))) for c in ([alone], grouped))
        notes.append(
            f"One process without {wrapper} had {ours} threads, but each process of a group {theirs}, "
            f"so the cost of {wrapper} itself is unknown: measure both with the same threads."
        )
    if base is None:
        notes.append("There is no speedup, because no single process has a valid result.")
    units = {_count(cell): cell.units for cell in grouped if cell.units}
    if whole and len(set(units.values())) > 1:
        listed = ", ".join(f"{u:,.0f} with {n} process{'es' * (n > 1)}" for n, u in sorted(units.items()))
        notes.append(f"The jobs differ in work ({listed}): speedups are of throughput, not of time.")
    return notes


def _faster(cell: Repeats, base: Repeats | None) -> Ratio | None:
    if base is None or not base.units or not cell.units:
        return None
    return speedup([t / base.units for t in _times(base)], [t / cell.units for t in _times(cell)])


def _times(cell: Repeats) -> list[float]:
    """Return the host's times, which include the slowest process, unlike one rank's device events."""
    return [r.wall.total_mean_s for r in cell.usable if r.wall is not None]


def _rate(step: Estimate, units: float) -> Estimate:
    low = None if step.high is None else units / step.high
    return Estimate(units / step.value, low, None if step.low is None else units / step.low)


def _device_ratio(cell: Repeats, base: Repeats) -> float | None:
    """Return processes and, on a CPU, their threads over the base's; None if unknown."""
    if not cell.usable or not base.usable:
        return None
    item, other = cell.usable[0], base.usable[0]
    ratio = _count(cell) / _count(base)
    if item.device == "cpu" and item.threads and other.threads:
        return ratio * item.threads / other.threads
    return ratio


def _count(cell: Repeats) -> int:
    return cell.cell.case.params.get(PROCESSES, 1)


def _groups(cell: Repeats) -> list[Group]:
    return [r.group for r in cell.usable if r.group is not None]


def _peaks(record: Record) -> list[tuple[int, int | None]]:
    ranks: dict[int, Rank | Memory] = {rank.rank: rank for rank in record.group.ranks} if record.group else {}
    if not record.group and record.memory:
        ranks[0] = record.memory
    on_cpu = record.device == "cpu"
    return [(n, rank.peak_rss_bytes if on_cpu else rank.device_allocated_bytes) for n, rank in ranks.items()]
