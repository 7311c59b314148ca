"""From records to a comparison."""

import pkgutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module

import tasks.findings
from tasks.findings.answer import MOST_LINES, cards_s, caveats, details, headline
from tasks.findings.bottleneck import with_bounds
from tasks.findings.break_even import with_payback
from tasks.findings.claims import sessions_of_number
from tasks.findings.ranking import ratio_of
from tasks.findings.scaling_families import families, sentences
from tasks.findings.totals import CommonCases, time_ratio_p, totals
from tasks.plausibility.physics import gate
from tasks.results.comparison import Comparison
from tasks.results.confounds import confounds
from tasks.results.cost import cost_efficiency
from tasks.results.finding import NO_ANSWER, EarlierAnswer, Finding, LaneJob, Results
from tasks.results.forecast import Forecast
from tasks.results.metrics import is_rate, metric_in, one_number, reported_text
from tasks.results.model import Machine, Pairing, Summary
from tasks.results.repeats import RecordKey, Repeats, group, latest
from tasks.results.scaling import band, device_ratio, efficiency, scaling, serial
from tasks.results.sessions import Sessions
from tasks.results.slices import without_sheets
from tasks.results.speedup import corrected, per_unit, refusal, speedup
from tasks.results.summaries import summarise
from tasks.results.wording import case_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade, Record


def compare(
    records: Sequence[Record],
    machines: Sequence[Machine],
    baseline: str,
    suite_cases: Collection[Case] = (),
    jobs: Sequence[LaneJob] = (),
    population: Sequence[Record] | None = None,
    sessions: Sessions | None = None,
    earlier: EarlierAnswer = NO_ANSWER,
    forecasts: Sequence[Forecast] = (),
    predicted: Sequence[Forecast] = (),
) -> Comparison:
    """Judge, summarise and pair the records.

    Args:
        suite_cases: those of totals; all if empty.
        population: records of other machines, if the run asks which to keep.
        earlier: the answer that this run confirms.
        forecasts: predictions kept before; `predicted` are this run's.

    Raises:
        ValueError: no machine has the baseline's name.
    """
    records = latest(records)
    machines = without_sheets(machines, records)
    cells, refusals = judged_cells(records, machines)
    summaries = with_bounds(summarise(cells, machines), cells)
    summaries = tuple(
        replace(summary, reported=reported_text(cell)) for summary, cell in zip(summaries, cells, strict=True)
    )
    sessions = sessions or Sessions.of(machines)
    cases = set(suite_cases) or {cell.cell.case for cell in cells}
    reporting = {cell.cell.case for cell in cells if cell.has_metrics}  # with numbers that are not times
    reported = [cell for cell in cells if cell.has_metrics and cell.cell.case in cases]
    cells = tuple(cell for cell in cells if cell.cell.case not in reporting)
    timed = tuple(summary for summary in summaries if summary.cell.case not in reporting)
    pairings = with_payback(pairs(cells, machines, baseline, sessions), timed)
    results = Results(
        records,
        machines,
        baseline,
        cells,
        timed,
        pairings,
        cases,
        jobs,
        population,
        sessions,
        earlier,
        reported,
        pairs(one_number(reported), machines, baseline, sessions),
        forecasts,
        predicted,
    )
    return stated(results, summaries, refusals)


def stated(
    results: Results, summaries: tuple[Summary, ...], refusals: Mapping[RecordKey, tuple[str, ...]]
) -> Comparison:
    machines, baseline, cells, pairings = results.machines, results.baseline, results.cells, results.pairings
    findings, scaled = tuple(kind.find(results) for kind in kinds()), families(cells)
    suite = CommonCases.of(results.suite_cells, results.sessions)
    paired = [pairing for pairing in pairings if pairing.case in results.suite]
    leading = [line for finding in findings for line in finding.headline()]
    is_same = leading and len(suite.cases) < (1 if results.reported else 2)  # a line on the only case, again
    busy_s = cards_s(cells, suite)
    general = () if is_same else headline(suite, machines, baseline, paired, summaries, busy_s)
    return Comparison(
        baseline=baseline,
        machines=tuple(machines),
        summaries=summaries,
        pairings=tuple(pairings),
        totals=totals(suite, machines, baseline),
        answer=(*leading, *general)[:MOST_LINES],
        details=(
            *(sentence for finding in findings for sentence in finding.details()),
            *details(suite, machines, paired),
            *sentences(scaled),
            *(*leading, *general)[MOST_LINES:],
        ),
        caveats=caveats(suite, machines, summaries, paired),
        unpaired=unpaired(cells, baseline),
        families=scaled,
        observations=tuple(sentence for finding in findings for sentence in finding.observations()),
        findings=findings,
        refusals=refusals,
    )


def judged_cells(
    records: Sequence[Record], machines: Sequence[Machine]
) -> tuple[tuple[Repeats, ...], dict[RecordKey, tuple[str, ...]]]:
    """Return cells, and the reasons against each implausible record."""
    refusals = gate(records, machines)
    return group(records, machines, refusals), refusals


def pairs(
    cells: Sequence[Repeats], machines: Sequence[Machine], baseline: str, sessions: Sessions
) -> list[Pairing]:
    """Pair every cell with the baseline's of the same case.

    Any verdict is false with a chance of at most 5 %, over all pairs.

    Raises:
        ValueError: no machine has the baseline's name.
    """
    available = {machine.name: machine for machine in machines}
    if baseline not in available:
        raise ValueError(
            f"the baseline {baseline!r} is not one of the machines: {', '.join(available) or 'there are no machines'}"
        )
    base, others = _sides(cells, baseline)
    found = [pair(cell, base.get(cell.cell.case), available, baseline, sessions) for cell in others]
    kinds_of = (
        corrected([p.compute for p in found]),
        corrected([p.end_to_end for p in found]),
        corrected([p.cost for p in found]),
    )
    return [
        replace(p, compute=compute, end_to_end=end_to_end, cost=cost)
        for p, compute, end_to_end, cost in zip(found, *kinds_of, strict=True)
    ]


def pair(
    side: Repeats,
    base: Repeats | None,
    machines: Mapping[str, Machine],
    baseline: str,
    sessions: Sessions,
) -> Pairing:
    case, hardware = side.cell.case, side.cell.hardware
    metric, sessions = metric_in(case.id), sessions_of_number(case, sessions)
    refused = refusal(base, side)
    if base is None or refused:
        return Pairing(case, hardware, baseline, refused=refused, grade=Grade.REFUSED)
    times_s, added = per_unit(base, side), sessions.of_cell(baseline, hardware)
    sides = zip((baseline, hardware), times_s, strict=True)
    earlier = [part for name, each in sides for part in sessions.of_repeats(name, case.id, each)]
    compute = speedup(*times_s, added, earlier)
    alone = speedup(*times_s, added) if earlier else None
    several = _over_sessions(base, side, sessions)
    if several:
        compute, alone = ratio_of(several, baseline, hardware), None
    fewest = min(len(base.usable), len(side.usable))
    first, other = side.usable[0], base.usable[0]
    ratio = device_ratio(first, machines.get(hardware), other, machines[baseline])
    is_paid = hardware in machines and (metric is None or is_rate(metric))
    price = machines[hardware].usd_per_hour if is_paid else None
    cost = cost_efficiency(compute, machines[baseline].usd_per_hour, price, fewest, times_s, added, earlier)
    if cost and compute and several:
        factor = cost.estimate.value / compute.estimate.value
        cost = replace(cost, chance=time_ratio_p(several, baseline, hardware, factor))
    share = efficiency(compute.estimate, ratio) if compute and ratio else None
    kind = scaling(side.units, base.units) if share else ""
    return Pairing(
        case=case,
        hardware=hardware,
        baseline=baseline,
        compute=compute,
        end_to_end=speedup(*per_unit(base, side, end_to_end=True), added),
        efficiency=share,
        efficiency_band=band(share) if share else "",
        cost=cost,
        confounds=confounds(side.usable, base.usable),
        scaling=kind,
        serial_fraction=serial(kind, compute.estimate.value, ratio) if compute and ratio else None,
        grade=max(side.grade, base.grade, key=list(Grade).index),
        provisional=side.provisional or base.provisional,
        own_compute=alone.estimate if alone else None,
    )


def _over_sessions(base: Repeats, side: Repeats, sessions: Sessions) -> CommonCases | None:
    if max(base.session_numbers, default=1) == 1:
        return None
    both = CommonCases.of([base, side], sessions, keeps_busy=True)
    return both if len(both.split(base.cell.hardware, side.cell.hardware)) > 1 else None


def unpaired(cells: Sequence[Repeats], baseline: str) -> tuple[str, ...]:
    """Return what to measure so that each cell has a ratio."""
    base, others = _sides(cells, baseline)
    return tuple(
        f"{cell.cell.id} has no counterpart: measure {case_text(cell.cell.case)} on {baseline} too"
        for cell in others
        if cell.cell.case not in base
    )


def _sides(cells: Sequence[Repeats], baseline: str) -> tuple[dict[Case, Repeats], list[Repeats]]:
    base = {cell.cell.case: cell for cell in cells if cell.cell.hardware == baseline}
    return base, [cell for cell in cells if cell.cell.hardware != baseline]


@cache
def kinds() -> tuple[type[Finding], ...]:
    """Return all in the order of a report."""
    files = pkgutil.walk_packages(tasks.findings.__path__, "tasks.findings.")
    classes = (
        value
        for file in files
        for value in vars(import_module(file.name)).values()
        if isinstance(value, type) and issubclass(value, Finding) and value.__module__ == file.name
    )
    return tuple(sorted(classes, key=lambda kind: (kind.order, kind.name)))
