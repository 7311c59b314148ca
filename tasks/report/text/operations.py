"""Operations of a job by machine, with start-up, and by size.

The job is one process, with one step of each operation.
"""

import statistics
from collections.abc import Sequence

from tasks.report.grid import Grid
from tasks.report.text.boxes import box
from tasks.results.cost import cost_words
from tasks.results.format import format_estimate, format_ratio, significant
from tasks.results.values import Estimate
from tasks.results.wording import size_text, verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.registry import declared

ONCE = (("Start: process and imports", ("process_start", "import")), ("Start: device", ("context",)))


def job_table(grid: Grid, records: Sequence[Record], name: str) -> str:
    """Return `Operation

    baseline s

    machine s

    Speedup` with start-up and totals.

    Sums are of medians, without intervals. Whole jobs are left out. Empty without shared cases.
    """
    pair = (grid.comparison.baseline, name)
    titles = {
        case: f"{group.workload} {size_text(case)} {group.precision}"
        for group in grid.groups
        for case in group.cases
        if all((s := grid.summaries.get((side, case))) and s.compute_s and not s.whole for side in pair)
    }
    if not titles:
        return ""
    cases = list(titles)
    rows = [[title, *_times(grid, pair, case), _speedup(grid, name, case)] for case, title in titles.items()]
    steps = [sum(_value(grid, side, case) for case in cases) for side in pair]
    first, second = (start_up(grid, records, side, cases) for side in pair)
    header, sums = ["Operation", *(f"{side} s" for side in pair), "Speedup"], _sums("Operations", steps)
    if not first or not second:
        return box(header, rows, sums)
    start = [[label, significant(first[label], 3), significant(second[label], 3), "-"] for label in first]
    totals = [steps[0] + sum(first.values()), steps[1] + sum(second.values())]
    return box(header, [*rows, sums, *start], _sums("Total job time", totals))


def size_tables(grid: Grid, name: str) -> list[str]:
    """Return `Matrix size

    machine s

    baseline s

    Speedup

    Cost Efficiency Ratio`, and one by image size.
    """
    tables = []
    summaries, sides = grid.comparison.summaries, (name, grid.comparison.baseline)
    devices = [{s.device for s in summaries if s.cell.hardware == side and s.ok_repeats} for side in sides]
    on_gpu = [of_side == {"cuda"} for of_side in devices]
    columns = ["GPU s" if gpu else "CPU s" for gpu in on_gpu]
    if on_gpu[0] == on_gpu[1]:
        columns = [f"{side} s" for side in sides]
    for group in grid.groups:
        workload = declared(group.workload)
        by_size = workload.by_size if workload else None
        if by_size == "matrix":
            sized = [case for case in group.cases if "n" in case.params]
            labels = {case: "{0}x{0}".format(case.params["n"]) for case in sized}
            tables.append(_by_size(grid, name, f"Matrix size, {group.precision}", labels, columns))
        elif by_size == "images":
            for pixels in sorted({case.params["pixels"] for case in group.cases if "pixels" in case.params}):
                of_size = [case for case in group.cases if case.params.get("pixels") == pixels]
                labels = {case: f"batch {case.params.get('batch', 1)}" for case in of_size}
                head = f"Image {pixels}x{pixels}, {group.precision}"
                tables.append(_by_size(grid, name, head, labels, columns))
    return [table for table in tables if table]


def hardware_table(grid: Grid, records: Sequence[Record]) -> str:
    """Return `Hardware

    Specification` from the fingerprints of the machines.
    """
    rows = []
    for name in grid.names:
        statements = next((r for r in records if r.hardware == name and r.environment), None)
        facts = _facts(statements) if statements else [("fingerprint", "not recorded")]
        rows += [[name if not i else "", f"{label}: {value}"] for i, (label, value) in enumerate(facts)]
    return box(["Hardware", "Recorded specification"], rows) if rows else ""


def _facts(record: Record) -> list[tuple[str, str]]:
    available = record.environment
    facts = [("instance", available.get("instance_type"))]
    for gpu in available.get("gpus") or ():
        if isinstance(gpu, dict):
            parts = (gpu.get("name"), _gib(gpu.get("memory_total_bytes")))
            facts.append(("GPU", ", ".join(filter(None, parts))))
    counts_of = {"physical_cores": "cores", "logical_cpus": "logical"}
    cpus = [f"{available[key]} {word}" for key, word in counts_of.items() if available.get(key)]
    facts += [
        ("CPU", available.get("cpu_model")),
        ("CPU count", ", ".join(cpus)),
        ("memory", _gib(available.get("memory_total_bytes"))),
        ("threads in use", str(record.threads) if record.threads else ""),
    ]
    return [(label, str(value)) for label, value in facts if value]


def _gib(size: object) -> str:
    return f"{size / 2**30:.1f} GiB" if isinstance(size, int | float) else ""


def _value(grid: Grid, name: str, case: Case) -> float:
    estimate = grid.summaries[name, case].compute_s
    return estimate.value if estimate else 0.0


def _times(grid: Grid, pair: tuple[str, str], case: Case) -> list[str]:
    texts = []
    for side in pair:
        if (summary := grid.summaries.get((side, case))) is None:
            texts.append("not measured")
        elif summary.compute_s:
            texts.append(format_estimate(summary.compute_s, ""))
        else:
            texts.append(verdict_text(summary.verdict))
    return texts


def _speedup(grid: Grid, name: str, case: Case) -> str:
    pairing = grid.pairings.get((name, case))
    ratio = pairing.compute if pairing else None
    return f"{format_ratio(ratio)} {ratio.outcome}" if ratio else "-"


def _sums(label: str, values: Sequence[float]) -> list[str]:
    base, side = values
    return [label, f"{base:.4g}", f"{side:.4g}", format_ratio(Estimate(base / side)) if side else "-"]


def start_up(grid: Grid, records: Sequence[Record], name: str, cases: Sequence[Case]) -> dict[str, float]:
    """Return start-up of a process and of operations (s); empty if a phase is missing.

    Medians of valid repeats, less a step in each first call. In a shared process later first calls would take
    less time.
    """
    selected = set(cases)
    counting = [r for r in records if r.hardware == name and counts(r) and r.case in selected]
    rows: dict[str, float] = {}
    for label, phases in ONCE:
        spent = [record.fresh_phases_s for record in counting]
        available = [sum(s[p] for p in phases) for s in spent if all(p in s for p in phases)]
        if not available:
            return {}
        rows[label] = statistics.median(available)
    builds, calls = _median_phase(counting, "build"), _median_phase(counting, "first_call")
    rows["Build of inputs, each"] = sum(builds.get(case, 0.0) for case in cases)
    beyond = [max(calls.get(case, 0.0) - _value(grid, name, case), 0.0) for case in cases]
    rows["First calls beyond a step, separate processes"] = sum(beyond)
    return rows


def _median_phase(ok: Sequence[Record], phase: str) -> dict[Case, float]:
    available: dict[Case, list[float]] = {}
    for record in ok:
        if phase in (spent := record.fresh_phases_s):
            available.setdefault(record.case, []).append(spent[phase])
    return {case: statistics.median(seconds) for case, seconds in available.items()}


def _by_size(grid: Grid, name: str, head: str, labels: dict[Case, str], columns: list[str]) -> str:
    pair = (name, grid.comparison.baseline)
    rows = []
    for case, label in labels.items():
        pairing = grid.pairings.get((name, case))
        cost = pairing.cost if pairing else None
        costs = f"{format_ratio(cost)} {cost_words(cost)}" if cost else "-"
        if any((side, case) in grid.summaries for side in pair):
            rows.append([label, *_times(grid, pair, case), _speedup(grid, name, case), costs])
    return box([head, *columns, "Speedup", "Cost Efficiency Ratio"], rows) if rows else ""
